//! The processes of the operator during a run: started, crashed, stopped and started again.

use std::time::Duration;

use super::incarnation::{End, Incarnation, Version};
use super::{Abort, CHECK_INTERVAL, World};
use crate::gate::Command;
use crate::trace::Lane;

/// How long a crashed operator takes to be started again.
const RESTART_DELAY: Duration = Duration::from_secs(2);

impl World<'_> {
    pub(super) async fn start_operator(&mut self) -> Result<(), Abort> {
        let started = Incarnation::start(
            &self.config,
            &self.cluster,
            &self.gate,
            &self.clock,
            &self.recorder,
            Version { elects: self.elects, is_previous: self.is_previous },
        );
        let incarnation =
            started.await.map_err(|error| Abort::Operator(evenkeel::chain(&*error)))?;
        if self.stepped {
            incarnation.set_stepped(true);
        }
        self.recorder
            .record(Lane::Operator, format!("starts (incarnation {})", incarnation.number));
        self.incarnations.push(incarnation);
        Ok(())
    }

    /// Lets a second pass, and restarts the operator if it has crashed. Returns whether an object
    /// has changed.
    pub(super) async fn tick(&mut self) -> Result<bool, Abort> {
        let mut restarted = false;
        self.follow_schedule().await?;
        let wait = tokio::time::sleep(CHECK_INTERVAL);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    if let Some(command) = command {
                        self.restart(command).await?;
                        restarted = true;
                    }
                }
                () = &mut wait => break,
            }
        }
        while let Some((incarnation, end)) = self.ended() {
            match end {
                End::LostLease(text) if self.elects => {
                    self.recorder
                        .record(Lane::Operator, format!("incarnation {incarnation} ends: {text}"));
                    self.restart(Command::Crash(incarnation)).await?;
                    restarted = true;
                }
                End::LostLease(text) | End::Failed(text) => return Err(Abort::Operator(text)),
            }
        }
        let taken = self.gate.release_names().await;
        Ok(self.collect() || restarted || taken)
    }

    /// Returns a process that has ended.
    fn ended(&mut self) -> Option<(u32, End)> {
        self.incarnations.iter_mut().find_map(|it| Some((it.number, it.end()?)))
    }

    /// Replaces the previous version of the operator by the current one, one replica after the other.
    pub(super) async fn upgrade(&mut self) -> Result<(), Abort> {
        self.is_previous = false;
        let numbers: Vec<u32> = self.incarnations.iter().map(|it| it.number).collect();
        for number in numbers {
            self.restart(Command::Restart(number)).await?;
        }
        Ok(())
    }

    pub(super) async fn restart(&mut self, command: Command) -> Result<(), Abort> {
        let (Command::Crash(number) | Command::Restart(number)) = command;
        let Some(index) = self.incarnations.iter().position(|it| it.number == number) else {
            return Ok(());
        };
        let incarnation = self.incarnations.remove(index);
        let reconciled = match command {
            Command::Crash(_) => incarnation.kill().await,
            Command::Restart(_) => incarnation.stop().await,
        };
        self.run.reconciled.extend(reconciled);
        tokio::time::sleep(RESTART_DELAY).await;
        self.start_operator().await
    }
}
