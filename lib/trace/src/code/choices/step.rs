//! What one instruction does to addresses.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic as M, OpAccess, OpKind, Register,
};

use super::value::{Facts, Item, Known, State, Value};

const STACK: usize = 4;

// What a called function need not keep (System V ABI, x86-64 supplement, section 3.2.1).
const LOST: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// Carries a state behind an instruction.
pub fn step(
    instruction: &Instruction,
    state: &mut State,
    known: &Known,
    facts: &mut Facts,
    info: &mut InstructionInfoFactory,
) {
    let mut now = Now { instruction, state, known, facts };
    if !now.moves() {
        now.spoil(info);
    }
}

struct Now<'a, 'k> {
    instruction: &'a Instruction,
    state: &'a mut State,
    known: &'a Known<'k>,
    facts: &'a mut Facts,
}

impl Now<'_, '_> {
    // Whether it is known what is moved.
    fn moves(&mut self) -> bool {
        let one = self.instruction;
        match one.mnemonic() {
            M::Lea => {
                let (Some(to), Some(value)) = (general(one.op0_register()), self.address()) else {
                    return false;
                };
                self.state.general[to] = value;
            }
            M::Mov if self.is_wide(0) || one.op0_kind() == OpKind::Register => {
                let Some(value) = self.read(1) else { return false };
                return self.write(0, value);
            }
            M::Xchg if self.is_wide(0) => {
                let (Some(first), Some(second)) = (self.read(0), self.read(1)) else {
                    return false;
                };
                return self.write(0, second) && self.write(1, first);
            }
            // What is there may stay.
            M::Cmpxchg if self.is_wide(0) => {
                if let Some(value) = self.read(1) {
                    self.write(0, value);
                }
                self.state.general[0] = self.nothing(0);
            }
            mnemonic
                if one.condition_code() != iced_x86::ConditionCode::None && is_cmov(mnemonic) =>
            {
                let (Some(mut value), Some(other)) = (self.read(0), self.read(1)) else {
                    return false;
                };
                value.extend(other);
                return self.write(0, value);
            }
            M::Add | M::Sub if one.op0_kind() == OpKind::Register => {
                let (Some(to), Ok(by)) = (general(one.op0_register()), one.try_immediate(1)) else {
                    return false;
                };
                let by =
                    if one.mnemonic() == M::Add { by as i64 } else { (by as i64).wrapping_neg() };
                self.state.general[to] = plus(&self.state.general[to], by);
            }
            M::Push => {
                let value = self.read(0).unwrap_or_default();
                self.state.general[STACK] = plus(&self.state.general[STACK], -8);
                let top = self.state.general[STACK].clone();
                self.put(top, value);
            }
            M::Pop => {
                let value = self.get(self.state.general[STACK].clone());
                self.state.general[STACK] = plus(&self.state.general[STACK], 8);
                return self.write(0, value);
            }
            M::Leave => {
                let frame = self.state.general[5].clone();
                self.state.general[5] = self.get(frame.clone());
                self.state.general[STACK] = plus(&frame, 8);
            }
            _ => return self.moves_vector(),
        }
        true
    }

    fn moves_vector(&mut self) -> bool {
        let one = self.instruction;
        let last = one.op_count().saturating_sub(1);
        match one.mnemonic() {
            M::Movq | M::Vmovq => match vector(one.op0_register()) {
                Some(to) => {
                    let Some(value) = self.read(1) else { return false };
                    self.state.vectors[to] = [value, Value::default()];
                }
                None => {
                    let Some(value) = self.read(1) else { return false };
                    return self.write(0, value);
                }
            },
            M::Movhps | M::Movhpd | M::Vmovhps | M::Vmovhpd | M::Movlps | M::Movlpd => {
                let lane = usize::from(!matches!(one.mnemonic(), M::Movlps | M::Movlpd));
                if one.op0_kind() == OpKind::Memory {
                    let Some(from) = vector(one.op1_register()) else { return false };
                    let (at, value) = (self.address(), self.state.vectors[from][lane].clone());
                    self.put(at.unwrap_or_default(), value);
                    return true;
                }
                let (Some(to), Some(value)) = (vector(one.op0_register()), self.read(last)) else {
                    return false;
                };
                if last == 2 {
                    let Some(low) = vector(one.op1_register()) else { return false };
                    self.state.vectors[to][0] = self.state.vectors[low][0].clone();
                }
                self.state.vectors[to][lane] = value;
            }
            M::Pinsrq | M::Vpinsrq => {
                let Some(to) = vector(one.op0_register()) else { return false };
                let from = if last == 3 { vector(one.op1_register()) } else { Some(to) };
                let (Some(from), Some(value)) = (from, self.read(last - 1)) else { return false };
                let mut lanes = self.state.vectors[from].clone();
                lanes[usize::from(one.immediate8() & 1)] = value;
                self.state.vectors[to] = lanes;
            }
            M::Punpcklqdq
            | M::Vpunpcklqdq
            | M::Unpcklpd
            | M::Vunpcklpd
            | M::Movlhps
            | M::Vmovlhps => {
                let first = if last == 2 { one.op1_register() } else { one.op0_register() };
                let (Some(to), Some(first)) = (vector(one.op0_register()), vector(first)) else {
                    return false;
                };
                let Some(high) = self.read(last) else { return false };
                self.state.vectors[to] = [self.state.vectors[first][0].clone(), high];
            }
            M::Movaps
            | M::Movups
            | M::Movdqa
            | M::Movdqu
            | M::Movapd
            | M::Movupd
            | M::Vmovaps
            | M::Vmovups
            | M::Vmovdqa
            | M::Vmovdqu
            | M::Vmovapd
            | M::Vmovupd => return self.moves_both(),
            _ => return false,
        }
        true
    }

    // 16 bytes.
    fn moves_both(&mut self) -> bool {
        let one = self.instruction;
        match (vector(one.op0_register()), vector(one.op1_register())) {
            (Some(to), Some(from)) => self.state.vectors[to] = self.state.vectors[from].clone(),
            (Some(to), None) => {
                let at = self.address().unwrap_or_default();
                self.state.vectors[to] = [self.get(at.clone()), self.get(plus(&at, 8))];
            }
            (None, Some(from)) => {
                let at = self.address().unwrap_or_default();
                let [low, high] = self.state.vectors[from].clone();
                self.put(at.clone(), low);
                self.put(plus(&at, 8), high);
            }
            (None, None) => return false,
        }
        true
    }

    // Nothing is known of what it writes.
    fn spoil(&mut self, info: &mut InstructionInfoFactory) {
        match self.instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => {
                for number in LOST {
                    self.state.general[number] = self.nothing(number);
                }
                self.state.vectors = Default::default();
                return;
            }
            FlowControl::Return => {
                let returned = self.functions(&self.state.general[0]);
                self.facts.returns.extend(returned);
                return;
            }
            _ => {}
        }
        for used in info.info(self.instruction).used_registers() {
            if matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
            {
                continue;
            }
            let register = used.register().full_register();
            if register.is_gpr64() {
                self.state.general[register.number()] = self.nothing(register.number());
            } else if register.is_vector_register() && register.number() < 16 {
                self.state.vectors[register.number()] = Default::default();
            }
        }
    }

    fn nothing(&self, register: usize) -> Value {
        Value::from([Item::left(self.instruction.ip(), register)])
    }

    // Whether an operand is memory of 8 bytes, or a register as large.
    fn is_wide(&self, operand: u32) -> bool {
        match self.instruction.op_kind(operand) {
            OpKind::Register => self.instruction.op_register(operand).is_gpr64(),
            OpKind::Memory => self.instruction.memory_size().size() == 8,
            _ => false,
        }
    }

    // What an operand of 8 bytes holds.
    fn read(&self, operand: u32) -> Option<Value> {
        let one = self.instruction;
        match one.op_kind(operand) {
            OpKind::Register => {
                let register = one.op_register(operand);
                if let Some(number) = vector(register) {
                    return Some(self.state.vectors[number][0].clone());
                }
                general(register).map(|number| self.state.general[number].clone())
            }
            OpKind::Memory if one.memory_size().size() == 8 => Some(self.get(self.address()?)),
            OpKind::Memory => None,
            _ => one.try_immediate(operand).ok().map(|value| Value::from([Item::Address(value)])),
        }
    }

    fn write(&mut self, operand: u32, value: Value) -> bool {
        let one = self.instruction;
        if one.op_kind(operand) == OpKind::Memory {
            if let Some(at) = self.address() {
                self.put(at, value);
            }
            return true;
        }
        // The upper half of a register becomes 0 with the lower one.
        let register = one.op_register(operand);
        let is_whole =
            register.is_gpr64() || (register.is_gpr32() && one.op1_kind() == OpKind::Immediate32);
        let number = register.full_register().number();
        if is_whole {
            let unknown = value.is_empty();
            self.state.general[number] = if unknown { self.nothing(number) } else { value };
        }
        is_whole
    }

    // Where the operand in memory is.
    fn address(&self) -> Option<Value> {
        let one = self.instruction;
        if one.is_ip_rel_memory_operand() {
            return Some(Value::from([Item::Address(one.ip_rel_memory_address())]));
        }
        let is_own = !matches!(one.segment_prefix(), Register::FS | Register::GS);
        if one.memory_index() != Register::None || !is_own {
            return None;
        }
        let offset = one.memory_displacement64();
        match one.memory_base() {
            Register::None => Some(Value::from([Item::Address(offset)])),
            base => Some(plus(&self.state.general[general(base)?], offset as i64)),
        }
    }

    // What lies in memory.
    fn get(&self, at: Value) -> Value {
        let mut found = Value::default();
        for item in at {
            match item {
                Item::Address(address) => {
                    found.extend(
                        self.known.pointers.get(&address).map(|target| Item::Address(*target)),
                    );
                }
                item => found.extend(self.state.stack.get(&item).into_iter().flatten()),
            }
        }
        if found.is_empty() { self.nothing(16) } else { found }
    }

    fn put(&mut self, at: Value, value: Value) {
        // Where there are several possibilities, it is not known which pointer it is.
        let Some(place) = at.first().filter(|place| at.len() == 1 && !place.is_any()) else {
            return;
        };
        if place.is_stack() {
            self.state.stack.insert(*place, value);
            return;
        }
        let functions = self.functions(&value);
        if !functions.is_empty() {
            self.facts.stores.entry(*place).or_default().extend(functions);
        }
    }

    fn functions(&self, value: &Value) -> Vec<u64> {
        let functions = value.iter().filter_map(|item| match item {
            Item::Address(address) if self.known.functions.contains(address) => Some(*address),
            _ => None,
        });
        functions.collect()
    }
}

fn plus(value: &Value, bytes: i64) -> Value {
    value.iter().map(|item| item.plus(bytes)).collect()
}

fn general(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

fn vector(register: Register) -> Option<usize> {
    register.is_xmm().then(|| register.number()).filter(|number| *number < 16)
}

fn is_cmov(mnemonic: M) -> bool {
    use M as C;
    matches!(
        mnemonic,
        C::Cmova
            | C::Cmovae
            | C::Cmovb
            | C::Cmovbe
            | C::Cmove
            | C::Cmovg
            | C::Cmovge
            | C::Cmovl
            | C::Cmovle
            | C::Cmovne
            | C::Cmovno
            | C::Cmovnp
            | C::Cmovns
            | C::Cmovo
            | C::Cmovp
            | C::Cmovs
    )
}
