//! The Evenkeel server in a child process, for scenarios over a socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context as _;
use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::identity::token_file::TokenFile;
use http::{Method, StatusCode};

use crate::client::Endpoint;
use crate::probe::Stopwatch;

/// The bearer token of the benchmark.
pub(crate) const TOKEN: &str = "bench";

/// Builds an API server that accepts [`TOKEN`].
pub(crate) async fn build() -> anyhow::Result<ApiServer> {
    let tokens = TokenFile::parse("tokens", "bench,bench,1,\"system:masters\"")?;
    Ok(ApiServer::builder().tokens(tokens).build().await?)
}

/// A server process, stopped on drop.
pub(crate) struct Process {
    pub(crate) endpoint: Endpoint,
    child: Child,
    /// Closing it stops the process.
    input: Option<ChildStdin>,
}

impl Process {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::spawn(Command::new(std::env::current_exe()?).arg("serve"))
    }

    /// Starts a process with a limit of `files` open files.
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
            .with_context(|| format!("the server process printed {url:?}"))?;
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

/// Runs in the server process.
pub(crate) async fn serve() -> anyhow::Result<()> {
    evenkeel_apiserver::listen::raise_open_files_limit();
    let server = build().await?;
    let serving = server.serve(([127, 0, 0, 1], 0).into()).await?;
    print_line(&serving.url())?;
    // Not tokio's stdin: a blocking read would delay the shutdown of the runtime.
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

/// Creates a kube client of the server process at `url`.
pub(crate) fn client(url: &str) -> anyhow::Result<kube::Client> {
    let mut config = kube::Config::new(url.parse()?);
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(TOKEN.to_owned().into());
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

/// Measures the time from building a server to its first response over TLS, in a new process.
pub(crate) fn first_response() -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    crate::threads()?.block_on(async {
        let server = build().await?;
        let serving = server.serve(([127, 0, 0, 1], 0).into()).await?;
        list_namespaces(&Endpoint::parse(&serving.url(), TOKEN.into())?).await?;
        print_line(&watch.elapsed().as_micros().to_string())
    })
}

/// Lists the namespaces over a new connection.
pub(crate) async fn list_namespaces(endpoint: &Endpoint) -> anyhow::Result<()> {
    let mut connection = endpoint.connect().await?;
    let path = "/api/v1/namespaces";
    let (status, _) = connection.exchange(Method::GET, path, bytes::Bytes::new()).await?;
    anyhow::ensure!(status == StatusCode::OK, "the first response is {status}");
    Ok(())
}

fn print_line(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}
