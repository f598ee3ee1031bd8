//! Who leaves, by example and over random histories.

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn limits() -> Limits {
    Limits {
        connections: 8,
        connections_per_address: 4,
        bodies: 100,
        ..Limits::webhooks(100)
    }
}

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn admitted(places: &mut Places, from: u8, now: Instant) -> (u64, CancellationToken) {
    match places.enter(address(from), now) {
        Entry::Admitted(id, evicted) => (id, evicted),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_beyond_its_number_loses_its_own_longest_waiting() {
    let (mut places, now) = (Places::new(limits()), Instant::now());
    let (other, kept) = admitted(&mut places, 2, now);
    let mine: Vec<_> = (0..5)
        .map(|second| admitted(&mut places, 1, now + Duration::from_secs(second)))
        .collect();
    assert!(mine[0].1.is_cancelled());
    assert!(mine[1..].iter().all(|(_, evicted)| !evicted.is_cancelled()));
    assert!(!kept.is_cancelled());
    assert!(places.deadline(other).is_some());
}

#[tokio::test(start_paused = true)]
async fn nobody_leaves_while_being_answered() {
    let (mut places, now) = (Places::new(limits()), Instant::now());
    let held: Vec<_> = (0..8).map(|number| admitted(&mut places, number / 4, now)).collect();
    for (id, _) in &held {
        places.head_read(*id, false, now);
        places.body_ended(*id);
    }
    assert!(matches!(places.enter(address(1), now), Entry::TooMany));
    assert!(matches!(places.enter(address(9), now), Entry::Full));
    places.request_ended(held[3].0, true, 0, now);
    admitted(&mut places, 9, now);
    assert!(held[3].1.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn bodies_beyond_the_bytes_are_taken_from_who_holds_most() {
    let (mut places, now) = (Places::new(limits()), Instant::now());
    let (first, first_evicted) = admitted(&mut places, 1, now);
    let (second, second_evicted) = admitted(&mut places, 1, now);
    let (good, good_evicted) = admitted(&mut places, 2, now);
    for id in [first, second, good] {
        places.head_read(id, false, now);
    }
    assert!(places.body_read(first, 50));
    assert!(places.body_read(second, 40));
    assert!(places.body_read(good, 45), "the first one's bytes are free");
    assert!(first_evicted.is_cancelled());
    assert!(!second_evicted.is_cancelled() && !good_evicted.is_cancelled());
    places.body_ended(good);
    places.body_ended(second);
    let (third, _) = admitted(&mut places, 3, now);
    places.head_read(third, false, now);
    assert!(places.body_read(third, 90), "it is its own victim");
    assert_eq!(places.deadline(third), None);
    let (fourth, _) = admitted(&mut places, 3, now);
    places.head_read(fourth, false, now);
    assert!(places.body_read(fourth, 15));
    assert_eq!(places.bytes, 100);
}

#[derive(Debug, Clone)]
enum Step {
    Enter(u8),
    Head(usize),
    Body(usize, usize),
    Whole(usize),
    End(usize),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u8..5).prop_map(Step::Enter),
        3 => any::<usize>().prop_map(Step::Head),
        3 => (any::<usize>(), 0_usize..60).prop_map(|(id, bytes)| Step::Body(id, bytes)),
        2 => any::<usize>().prop_map(Step::Whole),
        2 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::Leave),
    ]
}

proptest! {
    /// Whatever happens: no limit is exceeded, sums are right, and a client with one connection leaves only when every
    /// other connection is being answered.
    #[test]
    fn limits_hold_in_every_history(steps in proptest::collection::vec(step(), 1..200)) {
        let (mut places, limits) = (Places::new(limits()), limits());
        let mut now = Instant::now();
        let (_, good) = admitted(&mut places, 99, now);
        for step in steps {
            now += Duration::from_millis(1);
            let ids: Vec<u64> = places.connections.keys().copied().skip(1).collect();
            let pick = |number: usize| ids.get(number % ids.len().max(1)).copied();
            match step {
                Step::Enter(from) => drop(places.enter(address(from), now)),
                Step::Head(number) => {
                    if let Some(id) = pick(number) {
                        places.head_read(id, false, now);
                    }
                }
                Step::Body(number, bytes) => {
                    if let Some(id) = pick(number).filter(|id| places.connections[id].receiving > 0)
                        && !places.body_read(id, bytes)
                        && places.connections.contains_key(&id)
                    {
                        places.request_ended(id, false, bytes, now);
                    }
                }
                Step::Whole(number) => {
                    if let Some(id) = pick(number).filter(|id| places.connections[id].receiving > 0) {
                        places.body_ended(id);
                    }
                }
                Step::End(number) => {
                    if let Some(id) = pick(number).filter(|id| places.connections[id].answering > 0) {
                        let bytes = places.connections[&id].bytes;
                        let all = places.connections[&id].receiving == 0;
                        places.request_ended(id, true, if all { bytes } else { 0 }, now);
                    }
                }
                Step::Leave(number) => {
                    if let Some(id) = pick(number) {
                        places.leave(id);
                    }
                }
            }
            prop_assert!(places.count() <= limits.connections);
            let counts = places.by_address(|_| 1);
            prop_assert!(counts.values().all(|count| *count <= limits.connections_per_address));
            let sum: usize = places.connections.values().map(|connection| connection.bytes).sum();
            prop_assert_eq!(sum, places.bytes);
            if good.is_cancelled() {
                let newest = places.connections.keys().last().copied();
                let others = places.connections.iter().filter(|(id, _)| Some(**id) != newest);
                prop_assert!(others.into_iter().all(|(_, other)| other.answering > 0));
                break;
            }
        }
    }
}
