//! Connections over loopback: handshakes, identities, streams and stops.

mod harness;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustls::{HandshakeKind, ProtocolVersion};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Handle,
    time::timeout,
};

use self::harness::{Client, Credentials, Pki, Server, http2};
use super::*;
use evenkeel_pki::certificates::KeyedCertificate;
use evenkeel_pki::x509;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than any test may take: a test that waits for it has failed.
const NEVER: Duration = Duration::from_secs(600);

/// Fails unless all tasks but `count` end. Those of the client take a moment; a leaked task never
/// ends.
async fn wait_for_tasks(count: usize) {
    let ended = async {
        while Handle::current().metrics().num_alive_tasks() > count {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, ended).await.expect("tasks were leaked");
}

#[tokio::test]
async fn client_certificate_identifies_the_caller_over_both_protocols() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    for protocol in ["http/1.1", "h2"] {
        let client = Client::new(&pki, &[protocol], Credentials::Issued(&pki.admin));
        let reply = client.get(server.address, "/whoami").await.unwrap();
        assert_eq!(reply.body, "admin [system:masters, system:authenticated]");
        assert_eq!(reply.version, if protocol == "h2" { "HTTP/2.0" } else { "HTTP/1.1" });
    }
    server.stop().await;
}

#[tokio::test]
async fn http2_is_preferred_when_the_client_offers_both() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let client = Client::new(&pki, &["http/1.1", "h2"], Credentials::None);
    assert_eq!(client.get(server.address, "/whoami").await.unwrap().version, "HTTP/2.0");
    let client = Client::new(&pki, &[], Credentials::None);
    assert_eq!(client.get(server.address, "/whoami").await.unwrap().version, "HTTP/1.1");
    server.stop().await;
}

#[tokio::test]
async fn tls_1_2_clients_are_identified_too() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let client = Client::tls12(&pki, Credentials::Issued(&pki.admin));
    let stream = client.connect(server.address).await.unwrap();
    assert_eq!(stream.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    let reply = client.get(server.address, "/whoami").await.unwrap();
    assert_eq!(reply.body, "admin [system:masters, system:authenticated]");
    drop(stream);
    server.stop().await;
}

#[tokio::test]
async fn connection_without_certificate_carries_no_identity() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let client = Client::new(&pki, &["h2"], Credentials::None);
    assert_eq!(client.get(server.address, "/whoami").await.unwrap().body, "absent");
    server.stop().await;
}

#[tokio::test]
async fn certificate_of_another_authority_is_unverifiable() {
    let (pki, other) = (Pki::new(), Pki::new());
    let server = Server::start(&pki, ListenOptions::default());
    for protocol in ["http/1.1", "h2"] {
        let client = Client::new(&pki, &[protocol], Credentials::Issued(&other.admin));
        let reply = client.get(server.address, "/whoami").await.unwrap();
        assert!(
            reply.body.starts_with("unverifiable: verifying certificate failed"),
            "{}",
            reply.body
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn expired_and_serving_certificates_do_not_identify_a_client() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let expired = pki.issued_in_the_past();
    for (credentials, expected) in
        [(&expired, "unverifiable"), (&pki.serving, "unverifiable"), (&pki.admin, "admin")]
    {
        let client = Client::new(&pki, &["h2"], Credentials::Issued(credentials));
        let reply = client.get(server.address, "/whoami").await.unwrap();
        assert!(reply.body.starts_with(expected), "{}", reply.body);
    }
    server.stop().await;
}

#[tokio::test]
async fn certificate_is_verified_at_the_time_of_each_request() {
    let pki = Pki::new();
    let clock = Arc::new(AtomicU64::new(harness::NOW));
    let server = pki.serve_at(clock.clone());
    let client = Client::new(&pki, &["h2"], Credentials::Issued(&pki.admin));
    let (mut sender, _driver) = http2(client.connect(server.address).await.unwrap()).await;
    let validity = x509::validity(&pki.admin.chain()[0]).unwrap();
    let (first, last) = validity.into_inner();
    for (now, expected) in [
        (harness::NOW, "admin"),
        (last, "admin"),
        (last + 1, "unverifiable"),
        (first - 1, "unverifiable"),
        (first, "admin"),
    ] {
        clock.store(now, Ordering::Relaxed);
        let response = sender.send_request(harness::request("/whoami")).await.unwrap();
        let body = harness::text(response.into_body()).await.unwrap();
        assert!(body.starts_with(expected), "{now}: {body}");
    }
    drop(sender);
    server.stop().await;
}

#[tokio::test]
async fn version_1_certificate_is_unverifiable() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../evenkeel-pki/src/x509/fixtures/v1.pem");
    let old = KeyedCertificate::load(file.as_ref(), file.as_ref()).unwrap();
    assert!(x509::is_version_1(&old.chain()[0]));
    let credentials = Credentials::Issued(&old);
    for client in [Client::new(&pki, &["h2"], credentials), Client::tls12(&pki, credentials)] {
        let reply = client.get(server.address, "/whoami").await.unwrap();
        assert!(reply.body.starts_with("unverifiable"), "{}", reply.body);
    }
    let stolen = Credentials::Stolen { certificate: &old, key: &pki.admin };
    for client in [Client::new(&pki, &["http/1.1"], stolen), Client::tls12(&pki, stolen)] {
        assert!(client.get(server.address, "/whoami").await.is_err());
    }
    server.stop().await;
}

#[tokio::test]
async fn certificate_without_its_key_fails_the_handshake() {
    let (pki, thief) = (Pki::new(), Pki::new());
    let server = Server::start(&pki, ListenOptions::default());
    let stolen = Credentials::Stolen { certificate: &pki.admin, key: &thief.admin };
    for client in [Client::new(&pki, &["http/1.1"], stolen), Client::tls12(&pki, stolen)] {
        assert!(client.get(server.address, "/whoami").await.is_err());
    }
    server.stop().await;
}

#[tokio::test]
async fn resumed_session_keeps_the_identity() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let client = Client::new(&pki, &["http/1.1"], Credentials::Issued(&pki.admin));
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let reply = client.get(server.address, "/whoami").await.unwrap();
        assert!(reply.body.starts_with("admin"), "{}", reply.body);
        kinds.push(reply.handshake);
    }
    assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
    server.stop().await;
}

#[tokio::test]
async fn server_without_client_authorities_requests_no_certificate() {
    let pki = Pki::new();
    let tls = Tls::new(&pki.serving, &[], || harness::NOW).unwrap();
    let server = Server::start_with(tls, ListenOptions::default());
    let client = Client::new(&pki, &["h2"], Credentials::Issued(&pki.admin));
    assert_eq!(client.get(server.address, "/whoami").await.unwrap().body, "absent");
    server.stop().await;
}

#[tokio::test]
async fn non_loopback_addresses_need_the_option() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error =
            Listener::bind_plain(address.parse().unwrap(), ListenOptions::default()).unwrap_err();
        assert!(matches!(error, BindError::NonLoopback(_)), "{address}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("allow_non_loopback") && text.contains(address), "{text}");
    }
    let options = ListenOptions { allow_non_loopback: true, ..ListenOptions::default() };
    Listener::bind_plain("0.0.0.0:0".parse().unwrap(), options).unwrap();
    Listener::bind_plain("127.0.0.2:0".parse().unwrap(), ListenOptions::default()).unwrap();
}

#[tokio::test]
async fn port_in_use_is_named_in_the_error() {
    let first =
        Listener::bind_plain("127.0.0.1:0".parse().unwrap(), ListenOptions::default()).unwrap();
    let error = Listener::bind_plain(first.local_addr(), ListenOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("failed to listen on {}", first.local_addr()));
}

#[tokio::test]
async fn plain_listener_serves_without_identity() {
    let server = Server::start_plain();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"GET /whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.contains("\r\nabsent\r\n"),
        "{reply}"
    );
    server.stop().await;
}

#[tokio::test]
async fn hundreds_of_watches_share_one_connection() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let client = Client::new(&pki, &["h2"], Credentials::Issued(&pki.admin));
    let (sender, _driver) = http2(client.connect(server.address).await.unwrap()).await;
    let mut watches = Vec::new();
    for _ in 0..600 {
        let mut sender = sender.clone();
        let request = harness::request("/watch");
        let response = timeout(TIMEOUT, sender.send_request(request)).await.unwrap().unwrap();
        watches.push(harness::first_frame(response.into_body()).await);
    }
    assert_eq!(watches.len(), 600);
    assert_eq!(server.stop().await, Stopped { connections_aborted: 0 });
}

#[tokio::test]
async fn stop_is_immediate_once_the_service_ends_its_streams() {
    let pki = Pki::new();
    for protocol in ["http/1.1", "h2"] {
        let before = Handle::current().metrics().num_alive_tasks();
        let server =
            Server::start(&pki, ListenOptions { grace: NEVER, ..ListenOptions::default() });
        let client = Client::new(&pki, &[protocol], Credentials::None);
        let watch = client.open(server.address, "/watch").await;
        assert_eq!(
            timeout(TIMEOUT, server.stop()).await.unwrap(),
            Stopped { connections_aborted: 0 }
        );
        // The client saw a graceful end, not an abort.
        assert!(watch.ends_cleanly().await);
        wait_for_tasks(before).await;
    }
}

#[tokio::test]
async fn endless_response_is_aborted_after_the_grace_period_and_leaves_no_task() {
    let pki = Pki::new();
    for protocol in ["http/1.1", "h2"] {
        let before = Handle::current().metrics().num_alive_tasks();
        let grace = Duration::from_millis(20);
        let server = Server::start(&pki, ListenOptions { grace, ..ListenOptions::default() });
        let client = Client::new(&pki, &[protocol], Credentials::None);
        let watch = client.open(server.address, "/endless").await;
        assert_eq!(
            timeout(TIMEOUT, server.stop()).await.unwrap(),
            Stopped { connections_aborted: 1 }
        );
        assert!(!watch.ends_cleanly().await);
        wait_for_tasks(before).await;
    }
}

#[tokio::test]
async fn service_call_in_flight_is_dropped_on_abort() {
    let pki = Pki::new();
    for protocol in ["http/1.1", "h2"] {
        let grace = Duration::from_millis(20);
        let server = Server::start(&pki, ListenOptions { grace, ..ListenOptions::default() });
        let client = Client::new(&pki, &[protocol], Credentials::None);
        let calls = server.hanging_calls();
        let reply = client.get(server.address, "/hang");
        let stop = async {
            calls.wait_for(1).await;
            timeout(TIMEOUT, server.stop()).await.unwrap()
        };
        let (reply, stopped) = tokio::join!(reply, stop);
        assert!(reply.is_err());
        assert_eq!(stopped, Stopped { connections_aborted: 1 });
        assert_eq!(calls.now(), 0, "{protocol}: the service still processes a request");
    }
}

#[tokio::test]
async fn idle_connections_and_unfinished_handshakes_do_not_delay_a_stop() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions { grace: NEVER, ..ListenOptions::default() });
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let client = Client::new(&pki, &["h2"], Credentials::None);
    let (mut sender, _driver) = http2(client.connect(server.address).await.unwrap()).await;
    let response = sender.send_request(harness::request("/whoami")).await.unwrap();
    assert_eq!(harness::text(response.into_body()).await.unwrap(), "absent");

    assert_eq!(timeout(TIMEOUT, server.stop()).await.unwrap(), Stopped { connections_aborted: 0 });
    let end = timeout(TIMEOUT, silent.read(&mut [0])).await.unwrap();
    assert!(!matches!(end, Ok(1..)), "{end:?}");
}

#[tokio::test]
async fn idle_client_that_ignores_goaway_does_not_delay_a_stop() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions { grace: NEVER, ..ListenOptions::default() });
    let client = Client::new(&pki, &["h2"], Credentials::None);
    let mut silent = client.connect(server.address).await.unwrap();
    // The connection preface and empty settings: a complete HTTP/2 connection to the server.
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut settings = [0; 9];
    timeout(TIMEOUT, silent.read_exact(&mut settings)).await.unwrap().unwrap();
    assert_eq!(timeout(TIMEOUT, server.stop()).await.unwrap(), Stopped { connections_aborted: 0 });
}

#[tokio::test]
async fn silent_client_is_dropped_when_the_handshake_times_out() {
    let pki = Pki::new();
    let options =
        ListenOptions { handshake_timeout: Duration::from_millis(10), ..ListenOptions::default() };
    let server = Server::start(&pki, options);
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(timeout(TIMEOUT, silent.read(&mut [0])).await.unwrap().unwrap(), 0);
    server.stop().await;
}

#[tokio::test]
async fn http1_connection_without_a_request_is_dropped_after_the_idle_timeout() {
    let pki = Pki::new();
    let options =
        ListenOptions { idle_timeout: Duration::from_millis(10), ..ListenOptions::default() };
    let server = Server::start(&pki, options);
    let client = Client::new(&pki, &["http/1.1"], Credentials::None);
    let mut stream = client.connect(server.address).await.unwrap();
    // Graceful or not, the stream ends without a byte of response.
    let end = timeout(TIMEOUT, stream.read(&mut [0; 16])).await.unwrap();
    assert!(!matches!(end, Ok(1..)), "{end:?}");
    server.stop().await;
}

#[tokio::test]
async fn http2_connection_without_a_request_is_closed_after_the_idle_timeout() {
    let pki = Pki::new();
    let short = Duration::from_millis(10);
    let never = ListenOptions {
        idle_timeout: NEVER,
        anonymous_idle_timeout: NEVER,
        ..ListenOptions::default()
    };
    let anonymous = ListenOptions { anonymous_idle_timeout: short, ..never.clone() };
    let known = ListenOptions { idle_timeout: short, ..never };
    for (options, credentials) in
        [(anonymous, Credentials::None), (known, Credentials::Issued(&pki.admin))]
    {
        let server = Server::start(&pki, options);
        let client = Client::new(&pki, &["h2"], credentials);
        let (sender, mut driver) = http2(client.connect(server.address).await.unwrap()).await;
        timeout(TIMEOUT, driver.join_next()).await.unwrap();
        drop(sender);
        server.stop().await;
    }
}

#[tokio::test]
async fn busy_anonymous_connection_is_closed_after_its_lifetime() {
    let pki = Pki::new();
    let options =
        ListenOptions { anonymous_lifetime: Duration::from_millis(10), ..ListenOptions::default() };
    let server = Server::start(&pki, options);
    let client = Client::new(&pki, &["h2"], Credentials::None);
    let (mut sender, _driver) = http2(client.connect(server.address).await.unwrap()).await;
    // Graceful: every response that has begun completes, until no more requests are accepted.
    let refused = async {
        loop {
            let Ok(response) = sender.send_request(harness::request("/whoami")).await else {
                break;
            };
            assert_eq!(harness::text(response.into_body()).await.unwrap(), "absent");
        }
    };
    timeout(TIMEOUT, refused).await.unwrap();

    let client = Client::new(&pki, &["h2"], Credentials::Issued(&pki.admin));
    let watch = client.open(server.address, "/watch").await;
    server.stop().await;
    assert!(watch.ends_cleanly().await);
}

#[tokio::test]
async fn response_beyond_the_request_timeout_is_aborted_unless_it_is_a_watch() {
    let pki = Pki::new();
    let options =
        ListenOptions { request_timeout: Duration::from_millis(50), ..ListenOptions::default() };
    for protocol in ["http/1.1", "h2"] {
        let server = Server::start(&pki, options.clone());
        let client = Client::new(&pki, &[protocol], Credentials::Issued(&pki.admin));
        let watch = client.open(server.address, "/watch").await;
        let endless = client.open(server.address, "/endless").await;
        assert!(!timeout(TIMEOUT, endless.ends_cleanly()).await.unwrap(), "{protocol}");
        server.stop().await;
        assert!(watch.ends_cleanly().await, "{protocol}");
    }
}

#[tokio::test]
async fn idle_anonymous_connections_do_not_block_new_ones() {
    let pki = Pki::new();
    let options = ListenOptions {
        connections_max: 16,
        anonymous_connections_max: 4,
        ..ListenOptions::default()
    };
    let server = Server::start(&pki, options);
    let own = Client::new(&pki, &["h2"], Credentials::Issued(&pki.admin));
    let watch = own.open(server.address, "/watch").await;
    let mut flood = Vec::new();
    for _ in 0..64 {
        flood.push(TcpStream::connect(server.address).await.unwrap());
    }
    for credentials in [Credentials::None, Credentials::Issued(&pki.admin)] {
        let client = Client::new(&pki, &["h2"], credentials);
        timeout(TIMEOUT, client.get(server.address, "/whoami")).await.unwrap().unwrap();
    }
    // All but the last four are closed.
    for silent in &mut flood[..60] {
        let end = timeout(TIMEOUT, silent.read(&mut [0])).await.unwrap();
        assert!(!matches!(end, Ok(1..)), "{end:?}");
    }
    server.stop().await;
    assert!(watch.ends_cleanly().await);
}

#[tokio::test]
async fn panic_in_the_service_closes_only_its_connection() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    for protocol in ["http/1.1", "h2"] {
        let client = Client::new(&pki, &[protocol], Credentials::None);
        assert!(client.get(server.address, "/panic").await.is_err());
        assert_eq!(client.get(server.address, "/whoami").await.unwrap().body, "absent");
    }
    server.stop().await;
}

#[tokio::test]
async fn dropping_serve_ends_everything() {
    let pki = Pki::new();
    let server = Server::start(&pki, ListenOptions::default());
    let client = Client::new(&pki, &["h2"], Credentials::None);
    let watch = client.open(server.address, "/endless").await;
    drop(server);
    assert!(!watch.ends_cleanly().await);
}

#[tokio::test]
async fn failed_accepts_back_off_to_one_second() {
    let mut backoff = Backoff::default();
    let delays: Vec<_> = (0..10).map(|_| backoff.refused().as_millis()).collect();
    assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
}

#[test]
fn only_connection_errors_are_retried_without_backoff() {
    for (errno, expected) in [(103, true), (104, true), (24, false), (23, false), (12, false)] {
        let error = io::Error::from_raw_os_error(errno);
        assert_eq!(is_connection_error(&error), expected, "{error}");
    }
}
