//! A bank on transactions: accounts in a list, and transfers among them.

use ringfence_persist::Memory;

use crate::undo_log::{Abort, Bug, Pool};

// An account: the next one, its number, its balance, and how often it has paid and been paid.
const NEXT: usize = 0;
const NUMBER: usize = 8;
const BALANCE: usize = 16;
const PAID: usize = 24;
const RECEIVED: usize = 32;
const ACCOUNT: usize = 40;

/// What there is of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub number: u64,
    /// What it has.
    pub balance: u64,
    /// How often it has paid.
    pub paid: u64,
    /// How often it has been paid.
    pub received: u64,
}

/// A bank in a pool.
pub struct Bank<M> {
    pool: Pool<M>,
}

impl<M: Memory> Bank<M> {
    /// Over a pool that is new, or has a bank.
    pub fn over(pool: Pool<M>) -> Self {
        Self { pool }
    }

    /// All accounts, the newest first.
    pub fn accounts(&self) -> Vec<Account> {
        let memory = self.pool.memory();
        let account = |at: usize| Account {
            number: memory.load_u64(at + NUMBER),
            balance: memory.load_u64(at + BALANCE),
            paid: memory.load_u64(at + PAID),
            received: memory.load_u64(at + RECEIVED),
        };
        self.places().into_iter().map(account).collect()
    }

    /// Opens an account.
    pub fn open(&mut self, number: u64, balance: u64) -> Result<(), Abort> {
        self.pool.transaction(|pool| {
            let account = pool.allocate(ACCOUNT)?;
            pool.store(account + NEXT, pool.root() as u64);
            pool.store(account + NUMBER, number);
            pool.store(account + BALANCE, balance);
            pool.store(account + PAID, 0);
            pool.store(account + RECEIVED, 0);
            pool.set_root(account)
        })
    }

    /// Moves an amount from one account to another; refused where the first has not as much.
    pub fn transfer(&mut self, from: u64, to: u64, amount: u64) -> Result<(), Abort> {
        let (from, to) = (self.find(from), self.find(to));
        self.pool.transaction(|pool| {
            // Both are paid and noted before it is checked whether the money is there.
            let has = pool.memory().load_u64(from + BALANCE);
            pool.set(from + BALANCE, has.wrapping_sub(amount))?;
            let had = pool.memory().load_u64(to + BALANCE);
            // A transfer that is refused would show it without a crash.
            if pool.bug() == Some(Bug::NotAdded) && has >= amount {
                pool.store(to + BALANCE, had + amount);
            } else {
                pool.set(to + BALANCE, had + amount)?;
            }
            note(pool, from, PAID)?;
            note(pool, to, RECEIVED)?;
            if has < amount { Err(Abort::Refused) } else { Ok(()) }
        })
    }

    fn places(&self) -> Vec<usize> {
        let mut places = Vec::new();
        let mut at = self.pool.root();
        while at != 0 {
            assert!(places.len() < 100, "the accounts go in a circle");
            places.push(at);
            at = self.pool.memory().load_u64(at + NEXT) as usize;
        }
        places
    }

    fn find(&self, number: u64) -> usize {
        let is = |at: &usize| self.pool.memory().load_u64(*at + NUMBER) == number;
        self.places().into_iter().find(is).unwrap_or_else(|| panic!("account {number} is gone"))
    }
}

// A transaction of its own where there is none. Of what it adds, the balance was added, and
// modified, before.
fn note<M: Memory>(pool: &mut Pool<M>, account: usize, field: usize) -> Result<(), Abort> {
    pool.transaction(|pool| {
        pool.add(account + BALANCE..account + ACCOUNT)?;
        let count = pool.memory().load_u64(account + field);
        pool.store(account + field, count + 1);
        Ok(())
    })
}
