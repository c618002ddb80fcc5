//! `evenkeel dev` in a new project: until its sample is ready, and until a change has an effect.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use super::execute;

/// A running `evenkeel dev`.
struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Dev {
    /// Starts it in the directory of a project.
    fn start(
        evenkeel: &Path,
        project: &Path,
        setup: impl Fn(&mut Command),
    ) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(evenkeel);
        command.arg("dev").current_dir(project).stdout(Stdio::piped());
        setup(&mut command);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or("no output")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines() })
    }

    /// Reads the output up to a line with this text.
    fn until(&mut self, text: &str) -> Result<(), Box<dyn Error>> {
        for line in self.lines.by_ref() {
            if line?.contains(text) {
                return Ok(());
            }
        }
        Err(format!("`evenkeel dev` ended before it printed {text:?}").into())
    }

    /// Stops it as Ctrl-C does.
    fn stop(mut self) -> Result<(), Box<dyn Error>> {
        execute(Command::new("kill").args(["-INT", &self.child.id().to_string()]))?;
        match self.child.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("`evenkeel dev` failed: {status}").into()),
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long the steps took.
pub(super) struct Times {
    /// From the start of `evenkeel dev` until the sample is ready.
    pub(super) ready: Duration,
    /// From a change of a source until the new build has reconciled the sample.
    pub(super) changed: Duration,
}

/// Runs `evenkeel dev` in a project of the template `minimal` with the kind `Greeter`.
///
/// # Errors
/// If a step does not succeed.
pub(super) fn minimal(
    evenkeel: &Path,
    project: &Path,
    setup: impl Fn(&mut Command),
) -> Result<Times, Box<dyn Error>> {
    let started = Instant::now();
    let mut dev = Dev::start(evenkeel, project, setup)?;
    dev.until("patch Greeter.example.com/status default/sample")?;
    let ready = started.elapsed();
    let mut tree = Command::new(evenkeel);
    tree.args(["tree", "greeter/sample", "-n", "default", "--kubeconfig", "evenkeel.kubeconfig"]);
    let output = tree.current_dir(project).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("Ready=True") {
        return Err(format!("the sample is not ready: {text}").into());
    }
    let file = project.join("src/greeter.rs");
    let source = fs::read_to_string(&file)?;
    let changed = Instant::now();
    fs::write(&file, source.replace("Hello", "Good morning"))?;
    dev.until("apply ConfigMap default/sample (data.text)")?;
    let changed = changed.elapsed();
    dev.stop()?;
    fs::write(&file, source)?;
    Ok(Times { ready, changed })
}

/// Runs `evenkeel dev` in a project of the template `webhook`: its webhooks are called over loopback,
/// so the sample has the default that only they set.
///
/// # Errors
/// If a step does not succeed.
pub(super) fn webhook(
    evenkeel: &Path,
    project: &Path,
    setup: impl Fn(&mut Command),
) -> Result<(), Box<dyn Error>> {
    let mut dev = Dev::start(evenkeel, project, setup)?;
    dev.until("apply ConfigMap default/sample")?;
    let file = project.join("objects.json");
    let mut snapshot = Command::new(evenkeel);
    snapshot.args(["cluster", "snapshot"]).arg(&file).current_dir(project);
    execute(snapshot.args(["--kubeconfig", "evenkeel.kubeconfig"]))?;
    let objects = fs::read_to_string(&file)?;
    if !objects.contains("Hello, Ada!") {
        return Err("the webhook set no default".into());
    }
    let registered =
        |kind: &str| objects.lines().any(|it| it.contains(kind) && it.contains("127.0.0.1"));
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        if !registered(kind) {
            return Err(format!("there is no {kind} with a URL on this machine").into());
        }
    }
    dev.stop()
}
