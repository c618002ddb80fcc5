//! Evenkeel as a process of its own, for scenarios that go through a socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context as _;
use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::identity::token_file::TokenFile;
use http::{Method, StatusCode};

use crate::client::Endpoint;
use crate::probe::Stopwatch;

/// What admits the benchmark; it is no secret.
pub(crate) const TOKEN: &str = "bench";

/// An API server that knows [`TOKEN`].
pub(crate) async fn build() -> anyhow::Result<ApiServer> {
    let tokens = TokenFile::parse("tokens", "bench,bench,1,\"system:masters\"")?;
    Ok(ApiServer::builder().tokens(tokens).build().await?)
}

/// A serving process; it ends when this is dropped.
pub(crate) struct Process {
    pub(crate) endpoint: Endpoint,
    child: Child,
    /// Closing it asks the process to stop.
    input: Option<ChildStdin>,
}

impl Process {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::spawn(Command::new(std::env::current_exe()?).arg("serve"))
    }

    /// A process that may have no more than `files` files open.
    pub(crate) fn start_with_files(files: usize) -> anyhow::Result<Self> {
        let script = format!(r#"ulimit -n {files}; exec "$0" serve"#);
        Self::spawn(Command::new("sh").arg("-c").arg(script).arg(std::env::current_exe()?))
    }

    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the child has no output")?;
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url)?;
        let endpoint = Endpoint::parse(url.trim(), TOKEN.into())
            .with_context(|| format!("the serving process said {url:?}"))?;
        Ok(Self { endpoint, child, input })
    }

    pub(crate) fn id(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The serving process itself.
pub(crate) async fn serve() -> anyhow::Result<()> {
    evenkeel_apiserver::listen::raise_open_files_limit();
    let server = build().await?;
    let serving = server.serve(([127, 0, 0, 1], 0).into()).await?;
    say(&serving.url())?;
    // Nothing in tokio may wait for standard input: its read cannot be given up at the end.
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    });
    let _ = end.await;
    server.stop();
    serving.stop().await;
    Ok(())
}

/// A kube client of the serving process at `url`, as operators have one.
pub(crate) fn client(url: &str) -> anyhow::Result<kube::Client> {
    let mut config = kube::Config::new(url.parse()?);
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(TOKEN.to_owned().into());
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

/// From nothing to the first answer over TLS, in a process that has done nothing before.
pub(crate) fn first_answer() -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    crate::threads()?.block_on(async {
        let server = build().await?;
        let serving = server.serve(([127, 0, 0, 1], 0).into()).await?;
        ask(&Endpoint::parse(&serving.url(), TOKEN.into())?).await?;
        say(&watch.elapsed().as_micros().to_string())
    })
}

/// Asks for the namespaces.
pub(crate) async fn ask(endpoint: &Endpoint) -> anyhow::Result<()> {
    let mut connection = endpoint.connect().await?;
    let path = "/api/v1/namespaces";
    let (status, _) = connection.exchange(Method::GET, path, bytes::Bytes::new()).await?;
    anyhow::ensure!(status == StatusCode::OK, "the first answer is {status}");
    Ok(())
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}
