//! The transactions under check, by the bank on them.

use ringfence_crashcheck::{Machine, Profile, Report};

use crate::bank::{Account, Bank};
use crate::history::{self, ADR, ALL, How, OLD_AMD, expect};
use crate::undo_log::{Abort, Bug, Pool};

// Operations: account, other account, and amount; without an other account it is opened with that
// amount.
fn operation(account: u64, other: u64, amount: u64) -> u64 {
    account << 32 | other << 16 | amount
}

fn parts(operation: u64) -> (u64, u64, u64) {
    (operation >> 32, operation >> 16 & 0xffff, operation & 0xffff)
}

fn operate(machine: &Machine, bank: &mut Bank<&Machine>, operation: u64) -> Result<(), String> {
    let (account, other, amount) = parts(operation);
    let result = history::operate(machine, operation, || match other {
        0 => bank.open(account, amount),
        _ => bank.transfer(account, other, amount),
    });
    match result {
        Ok(()) | Err(Abort::Refused) => Ok(()),
        Err(abort) => Err(format!("{abort:?} in the transaction {:?}", parts(operation))),
    }
}

fn left_by(operations: &[u64]) -> Vec<Account> {
    let mut accounts: Vec<Account> = Vec::new();
    for operation in operations {
        let (number, other, amount) = parts(*operation);
        if other == 0 {
            accounts.insert(0, Account { number, balance: amount, paid: 0, received: 0 });
            continue;
        }
        let find = |number| accounts.iter().position(|account| account.number == number).unwrap();
        let (from, to) = (find(number), find(other));
        if accounts[from].balance >= amount {
            accounts[from].balance -= amount;
            accounts[from].paid += 1;
            accounts[to].balance += amount;
            accounts[to].received += 1;
        }
    }
    accounts
}

fn recovery(machine: &Machine, bug: Option<Bug>) -> Result<(), String> {
    let past = history::past(machine);
    let mut bank = match Pool::open(machine, bug) {
        None if past.created => return Err("the pool is gone".into()),
        None => return Ok(()),
        Some(pool) => Bank::over(pool),
    };
    let accounts = bank.accounts();
    history::settle(machine, &past, &accounts, left_by)?;
    // Life goes on: with a second account, or a transfer that is made and one that is refused.
    if let [one, other, ..] = accounts[..] {
        operate(machine, &mut bank, operation(other.number, one.number, 1))?;
        operate(machine, &mut bank, operation(one.number, other.number, 9999))?;
    } else {
        operate(machine, &mut bank, operation(100 + past.begun.len() as u64, 0, 10))?;
    }
    let now = bank.accounts();
    if now != left_by(&history::past(machine).done) {
        return Err(format!("{now:?} after the next operations"));
    }
    Ok(())
}

// Accounts are opened; transfers are made, and refused.
const PROGRAM: &[(u64, u64, u64)] =
    &[(1, 0, 100), (2, 0, 50), (1, 2, 30), (2, 1, 1000), (3, 0, 7), (2, 3, 80), (3, 1, 5)];

fn check(profile: Profile, how: How, bug: Option<Bug>) -> Report {
    // What follows differs in numbers alone, and is many times as much with two crashes.
    let program = if how == How::Twice { &PROGRAM[..4] } else { PROGRAM };
    how.check(profile, 2048).run(
        |machine| {
            let mut bank = Bank::over(Pool::create(machine, bug));
            history::created(machine);
            for (account, other, amount) in program.iter().copied() {
                operate(machine, &mut bank, operation(account, other, amount)).unwrap();
            }
        },
        |machine| recovery(machine, bug),
    )
}

#[test]
fn transactions_survive_crashes() {
    for (how, wanted) in [(How::Once, &[][..]), (How::Twice, &[]), (How::Clflush, OLD_AMD)] {
        expect("undo log", None::<Bug>, how, wanted, |profile| check(profile, how, None));
    }
}

#[test]
fn bugs_of_transactions_are_found() {
    for (bug, wanted, with_clflush) in [
        // Non-temporal stores wait for a fence under eADR too.
        (Bug::ModifyEarly, ALL, ALL),
        (Bug::CountFirst, ALL, ALL),
        (Bug::CommitClearsEarly, ADR, ADR),
        (Bug::CommitNotFenced, ALL, ALL),
        (Bug::FirstLineOnly, ADR, ADR),
        (Bug::AbortClearsEarly, ADR, ADR),
        // Takes a second crash: see below.
        (Bug::RecoveryClearsEarly, &[], OLD_AMD),
        (Bug::OldEntries, ALL, ALL),
        (Bug::OldestFirst, ALL, ALL),
        (Bug::NewNotFlushed, ADR, ADR),
        (Bug::NotAdded, ALL, ALL),
    ] {
        for (how, wanted) in [(How::Once, wanted), (How::Clflush, with_clflush)] {
            expect("undo log", Some(bug), how, wanted, |profile| check(profile, how, Some(bug)));
        }
    }
    let bug = Some(Bug::RecoveryClearsEarly);
    expect("undo log", bug, How::Twice, ADR, |profile| check(profile, How::Twice, bug));
}

#[test]
fn transactions_are_made_or_refused() {
    let mut bank = Bank::over(Pool::create(history::plain_memory(1 << 16), None));
    let (mut random, mut operations) = (history::random(3), Vec::new());
    for number in 1..=20 {
        bank.open(number, 100).unwrap();
        operations.push(operation(number, 0, 100));
    }
    let mut refused = 0;
    for _ in 0..2000 {
        let (from, to, amount) = (1 + random(20), 1 + random(20), random(150));
        if from == to {
            continue;
        }
        operations.push(operation(from, to, amount));
        match bank.transfer(from, to, amount) {
            Ok(()) => {}
            Err(abort) => {
                assert_eq!(abort, Abort::Refused);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    assert_eq!(bank.accounts(), left_by(&operations));
    assert_eq!(bank.accounts().iter().map(|account| account.balance).sum::<u64>(), 2000);
}

#[test]
fn an_inner_transaction_that_fails_fails_the_outer_one() {
    let mut pool = Pool::create(history::plain_memory(4096), None);
    let at = pool.transaction(|pool| pool.allocate(1024)).unwrap();
    pool.transaction(|pool| pool.set(at, 1)).unwrap();
    let result = pool.transaction(|pool| {
        pool.set(at, 2)?;
        _ = pool.transaction(|pool| pool.set(at + 8, 3).and(Err::<(), _>(Abort::HeapFull)));
        Ok(())
    });
    assert_eq!(result, Err(Abort::Refused));
    let word = |pool: &Pool<_>, at| ringfence_persist::Memory::load_u64(pool.memory(), at);
    assert_eq!((word(&pool, at), word(&pool, at + 8)), (1, 0));
    assert_eq!(pool.transaction(|pool| pool.add(at..at + 1024)), Err(Abort::LogFull));
    assert_eq!(pool.transaction(|pool| pool.allocate(8192)), Err(Abort::HeapFull));
    pool.transaction(|pool| pool.set(at, 4)).unwrap();
    assert_eq!(word(&pool, at), 4);
}
