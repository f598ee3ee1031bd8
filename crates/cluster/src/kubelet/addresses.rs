//! Addresses of pods.
//!
//! Owns which address of 10.128.0.0/9 belongs to which pod, so that no two pods have the same one. Addresses are
//! given out in order and reused only after a full round, as a late connection to a dead pod should fail rather
//! than reach another. It never checks reachability: nothing listens there.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const FIRST: u32 = (10 << 24) | (128 << 16) | 2;
const LAST: u32 = (10 << 24) | (255 << 16) | (255 << 8) | 254;

/// The addresses in use.
#[derive(Debug)]
pub(crate) struct AddressPool {
    used: BTreeSet<u32>,
    next: u32,
}

impl Default for AddressPool {
    fn default() -> Self {
        Self {
            used: BTreeSet::new(),
            next: FIRST,
        }
    }
}

impl AddressPool {
    /// An address that nobody has; none if all eight million are taken.
    pub(crate) fn take(&mut self) -> Option<Ipv4Addr> {
        let mut candidate = self.next;
        for _ in 0..=self.used.len() {
            let following = if candidate >= LAST { FIRST } else { candidate + 1 };
            if self.used.insert(candidate) {
                self.next = following;
                return Some(Ipv4Addr::from(candidate));
            }
            candidate = following;
        }
        None
    }

    /// The address belongs to a pod that was there before.
    pub(crate) fn adopt(&mut self, address: Ipv4Addr) {
        self.used.insert(address.into());
    }

    /// The pod is gone.
    pub(crate) fn release(&mut self, address: Ipv4Addr) {
        self.used.remove(&u32::from(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_not_reused_at_once() {
        let mut pool = AddressPool::default();
        let first = pool.take().unwrap();
        assert_eq!(first.to_string(), "10.128.0.2");
        pool.adopt("10.128.0.3".parse().unwrap());
        let second = pool.take().unwrap();
        assert_eq!(second.to_string(), "10.128.0.4", "adopted addresses are skipped");
        pool.release(first);
        assert_eq!(pool.take().unwrap().to_string(), "10.128.0.5");
    }

    #[test]
    fn after_the_last_address_comes_the_first_free_one() {
        let mut pool = AddressPool {
            next: LAST,
            ..AddressPool::default()
        };
        pool.adopt(Ipv4Addr::from(FIRST));
        assert_eq!(pool.take().map(u32::from), Some(LAST));
        assert_eq!(pool.take().map(u32::from), Some(FIRST + 1));
    }
}
