//! The transactions under check, by the bank on them.

use ringfence_crashcheck::{Check, Machine, Profile, Report};

use crate::bank::{Account, Bank};
use crate::history::{self, ADR, ALL, expect};
use crate::undo_log::{Abort, Bug, Pool};

// Operations: account, other account, and amount; without an other account it is opened with that amount.
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
    // Life goes on: an account more, and where there are two, a transfer that is made and one that is refused.
    let number = 100 + past.begun.len() as u64;
    operate(machine, &mut bank, operation(number, 0, 10))?;
    if let Some(other) = accounts.first() {
        operate(machine, &mut bank, operation(number, other.number, 4))?;
        operate(machine, &mut bank, operation(number, other.number, 40))?;
    }
    let now = bank.accounts();
    if now != left_by(&history::past(machine).done) {
        return Err(format!("{now:?} after the next operations"));
    }
    Ok(())
}

fn check(profile: Profile, crashes: usize, bug: Option<Bug>) -> Report {
    Check::new(profile, 2048).crashes(crashes).run(
        |machine| {
            let mut bank = Bank::over(Pool::create(machine, bug));
            history::created(machine);
            for (account, other, amount) in
                [(1, 0, 100), (2, 0, 50), (1, 2, 30), (3, 0, 7), (2, 1, 1000), (2, 3, 80), (3, 1, 5)]
            {
                operate(machine, &mut bank, operation(account, other, amount)).unwrap();
            }
        },
        |machine| recovery(machine, bug),
    )
}

#[test]
fn transactions_survive_crashes() {
    for crashes in [1, 2] {
        expect("undo log", None::<Bug>, crashes, &[], |profile| check(profile, crashes, None));
    }
}

#[test]
fn bugs_of_transactions_are_found() {
    for (bug, crashes, wanted) in [
        // Non-temporal stores wait for a fence under eADR too.
        (Bug::ModifyEarly, 1, ALL),
        (Bug::CountFirst, 1, ALL),
        (Bug::CommitClearsEarly, 1, ADR),
        (Bug::CommitNotFenced, 1, ALL),
        (Bug::FirstLineOnly, 1, ADR),
        (Bug::AbortClearsEarly, 1, ADR),
        (Bug::RecoveryClearsEarly, 1, &[]),
        (Bug::RecoveryClearsEarly, 2, ADR),
        (Bug::AnyGeneration, 1, ALL),
        (Bug::OldestFirst, 1, ALL),
        (Bug::NewNotFlushed, 1, ADR),
        (Bug::NotAdded, 1, ALL),
    ] {
        expect("undo log", Some(bug), crashes, wanted, |profile| check(profile, crashes, Some(bug)));
    }
}
