//! When rejected clients should try again: the more were rejected, the later.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// The longest time in seconds.
const MAX: i64 = 32;

/// The rejected requests of a priority level. Doubles the time while they are many, and shortens it
/// by a second when they are few, as upstream does.
#[derive(Debug)]
pub(super) struct RetryAfter(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Seconds with the number of their rejected requests; the last one is the current second.
    history: VecDeque<(i64, i64)>,
    seconds: i64,
    doubled_at: i64,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self(Mutex::new(State { history: VecDeque::new(), seconds: 1, doubled_at: 0 }))
    }
}

impl RetryAfter {
    /// Counts a rejected request in the second `now`, and returns after how many seconds its client
    /// should try again.
    pub(super) fn rejected(&self, now: i64) -> u32 {
        let state = &mut *self.0.lock();
        match state.history.back_mut() {
            Some((second, count)) if *second == now => *count += 1,
            _ => {
                state.update(now);
                state.history.push_back((now, 1));
            }
        }
        u32::try_from(state.seconds).unwrap_or(1)
    }
}

impl State {
    fn update(&mut self, now: i64) {
        let kept = (2 * self.seconds).min(MAX);
        self.history.retain(|(second, _)| now - second <= kept + 1);
        let recent = self.history.iter().filter(|(second, _)| now - second <= self.seconds);
        let rejected: i64 = recent.map(|(_, count)| count).sum();
        if now - self.doubled_at >= self.seconds && rejected >= 3 * self.seconds {
            self.seconds = (2 * self.seconds).min(MAX);
            self.doubled_at = now;
        } else if rejected < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_doubles_under_load_and_shrinks_afterwards() {
        let retry = RetryAfter::default();
        let reject =
            |second: i64, count: usize| (0..count).map(|_| retry.rejected(second)).last().unwrap();
        assert_eq!(reject(100, 10), 1);
        assert_eq!(reject(101, 10), 2);
        assert_eq!(reject(102, 10), 2);
        assert_eq!(reject(103, 10), 4);
        let longest = (104..300).map(|second| reject(second, 200)).max().unwrap();
        assert_eq!(longest, 32);
        let later: Vec<u32> = (0..40).map(|n| reject(1000 + 40 * n, 1)).collect();
        assert_eq!(later.last(), Some(&1));
    }
}
