//! A proxy of bytes between a real client and a real server, which does to each connection what it is told.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "shared by tests that each use a part of it"
)]

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{advance, pause, resume};

use crate::server::Server;

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: bytes pass in both directions.
    None,
    /// Reset once the client has sent its request, which the server never sees.
    ResetUnread,
    /// Reset once the server has carried the request out, with no byte of its answer.
    ResetCarriedOut,
    /// Closed within the head of the answer (HTTP/1.1).
    HalfHead,
    /// Closed within the body of the answer.
    HalfBody,
    /// The server carries requests out, and no answer comes back.
    Silence,
    /// As `Silence`, with a byte of the answer now and then.
    Drip,
    /// The same after the head of the answer, so that its body drips (HTTP/1.1).
    DripBody,
    /// Half open: accepted, and nothing that is sent arrives anywhere.
    Deaf,
    /// Cut off in mid-call: the server carries the first request out, a few bytes of its answer come through, and from
    /// then on nothing passes in either direction. Neither side is told.
    Partition,
}

/// The number of bytes that drip, and the time between them: together an attempt's deadline.
const DRIPS: u32 = 6;
const DRIP: Duration = Duration::from_millis(500);

pub struct Proxy {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    stalls: mpsc::UnboundedReceiver<Stall>,
}

/// The client has to wait now, in vain.
struct Stall {
    wait: Duration,
    over: oneshot::Sender<()>,
}

impl Proxy {
    /// A proxy that does these things to its first connections, in turn, and nothing to the others.
    pub async fn start(server: &Server, faults: impl IntoIterator<Item = Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        let mut faults: Vec<Fault> = faults.into_iter().collect();
        faults.reverse();
        let server = server.clone();
        let (sender, stalls) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::SeqCst);
                let fault = faults.pop().unwrap_or(Fault::None);
                let connection = Connection {
                    client,
                    upstream: TcpStream::connect(server.address).await.unwrap(),
                    carried_out: server.carried_out(),
                    stalls: sender.clone(),
                };
                tokio::spawn(connection.run(fault));
            }
        });
        Self {
            address,
            connections,
            stalls,
        }
    }

    /// Runs a call. Where the proxy makes the client wait, the clock is moved, once everything else has happened: a
    /// clock paused throughout would move by itself while bytes are on their way.
    pub async fn drive<T>(&mut self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        loop {
            tokio::select! {
                biased;
                outcome = &mut call => return outcome,
                Some(stall) = self.stalls.recv() => {
                    pause();
                    advance(stall.wait).await;
                    resume();
                    let _ = stall.over.send(());
                }
            }
        }
    }

    /// Runs a call until it has to wait in vain, and drops it.
    pub async fn until_stalled<T>(&mut self, call: impl Future<Output = T>) {
        tokio::select! {
            _ = call => unreachable!("there is no answer"),
            stall = self.stalls.recv() => drop(stall),
        }
    }

    /// The connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// An address that nobody listens at, for as long as the socket lives.
pub fn refusing() -> (SocketAddr, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (socket.local_addr().unwrap(), socket)
}

struct Connection {
    client: TcpStream,
    upstream: TcpStream,
    carried_out: watch::Receiver<usize>,
    stalls: mpsc::UnboundedSender<Stall>,
}

impl Connection {
    async fn run(mut self, fault: Fault) {
        self.carried_out.mark_unchanged();
        match fault {
            Fault::None => {
                // Either side may break it off.
                let _ = copy_bidirectional(&mut self.client, &mut self.upstream).await;
            }
            Fault::ResetUnread => {
                let mut sent = Sent::default();
                while sent.requests() == 0 {
                    assert_ne!(self.client.read_buf(&mut sent.0).await.unwrap(), 0);
                }
                reset(self.client);
            }
            Fault::ResetCarriedOut => {
                let (mut from_client, to_client) = self.client.into_split();
                let (_from_upstream, mut to_upstream) = self.upstream.into_split();
                tokio::select! {
                    _ = copy(&mut from_client, &mut to_upstream) => {}
                    changed = self.carried_out.changed() => changed.unwrap(),
                }
                reset(from_client.reunite(to_client).unwrap());
            }
            Fault::HalfHead => self.cut(b"HTTP/1.1 20").await,
            Fault::HalfBody => self.cut(b"one half|").await,
            Fault::Silence => self.starve(b"", 0).await,
            Fault::Drip => self.starve(b"", DRIPS).await,
            Fault::DripBody => self.starve(b"\r\n\r\n", DRIPS).await,
            Fault::Deaf => swallow(self.client, Sent::default(), self.stalls).await,
            Fault::Partition => self.part().await,
        }
    }

    /// Passes the answer on up to the end of this text, and closes.
    async fn cut(self, end: &[u8]) {
        let (mut from_client, mut to_client) = self.client.into_split();
        let (mut from_upstream, mut to_upstream) = self.upstream.into_split();
        let passing = tokio::spawn(async move {
            let _ = copy(&mut from_client, &mut to_upstream).await;
        });
        pass_to(&mut from_upstream, &mut to_client, end).await;
        to_client.shutdown().await.unwrap();
        passing.await.unwrap();
    }

    /// Passes a request on, then a few bytes of the answer, and then nothing.
    async fn part(mut self) {
        let mut sent = Sent::default();
        loop {
            let passed = sent.0.len();
            tokio::select! {
                read = self.client.read_buf(&mut sent.0) => assert_ne!(read.unwrap(), 0),
                changed = self.carried_out.changed() => break changed.unwrap(),
            }
            self.upstream.write_all(&sent.0[passed..]).await.unwrap();
        }
        let mut some = [0; 8];
        self.upstream.read_exact(&mut some).await.unwrap();
        self.client.write_all(&some).await.unwrap();
        swallow(self.client, sent, self.stalls).await;
    }

    /// Passes requests on and, of what comes back, what is before the end of this text and so many bytes.
    async fn starve(self, before: &[u8], drips: u32) {
        let (from_client, mut to_client) = self.client.into_split();
        let (mut from_upstream, to_upstream) = self.upstream.into_split();
        let stalling = async {
            pass_to(&mut from_upstream, &mut to_client, before).await;
            let (carried_out, stalls) = (self.carried_out, self.stalls);
            stall(drips, to_client, from_upstream, carried_out, stalls).await;
        };
        tokio::select! {
            () = until_closed(from_client, to_upstream) => {}
            () = stalling => {}
        }
    }
}

/// Passes bytes on up to the end of this text.
async fn pass_to(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, end: &[u8]) {
    let mut last = Vec::new();
    while !last.ends_with(end) {
        let byte = from.read_u8().await.unwrap();
        to.write_u8(byte).await.unwrap();
        last.push(byte);
    }
}

/// Takes what the client sends to nowhere, and has it wait in vain for each request, until the client closes the
/// connection: only then is it gone. So many requests have been sent before.
async fn swallow(mut client: TcpStream, mut sent: Sent, stalls: mpsc::UnboundedSender<Stall>) {
    let mut waited = 0;
    loop {
        while waited < sent.requests() {
            waited += 1;
            let (over, done) = oneshot::channel();
            let wait = DRIP * DRIPS;
            // Nobody may be waiting any more.
            let _ = stalls.send(Stall { wait, over });
            let _ = done.await;
        }
        if client.read_buf(&mut sent.0).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

async fn until_closed(mut from_client: OwnedReadHalf, mut to_upstream: OwnedWriteHalf) {
    let _ = copy(&mut from_client, &mut to_upstream).await;
}

async fn stall(
    mut drips: u32,
    mut to_client: OwnedWriteHalf,
    mut from_upstream: OwnedReadHalf,
    mut carried_out: watch::Receiver<usize>,
    stalls: mpsc::UnboundedSender<Stall>,
) {
    while carried_out.changed().await.is_ok() {
        let waits = if drips == 0 { 1 } else { drips };
        for _ in 0..waits {
            if drips > 0 {
                let byte = from_upstream.read_u8().await.unwrap();
                to_client.write_u8(byte).await.unwrap();
            }
            let wait = DRIP * DRIPS / waits;
            let (over, done) = oneshot::channel();
            let _ = stalls.send(Stall { wait, over });
            // Nobody may be waiting any more.
            if done.await.is_err() {
                return;
            }
        }
        drips = 0;
    }
}

/// Closes with a reset.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

/// What a client has sent on a connection.
#[derive(Default)]
struct Sent(Vec<u8>);

impl Sent {
    /// The whole requests in it. Of HTTP/1.1 it sees one at most, and not whether the body is there too.
    fn requests(&self) -> usize {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        const END_STREAM: u8 = 1;
        const HEADERS_OR_DATA: std::ops::RangeInclusive<u8> = 0..=1;
        let bytes = &*self.0;
        let Some(mut frames) = bytes.strip_prefix(PREFACE) else {
            let ends = bytes.windows(4).any(|end| end == b"\r\n\r\n");
            return usize::from(ends && !bytes.starts_with(b"PRI"));
        };
        let mut requests = 0;
        while let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = frames {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some(rest) = rest.get(length..) else {
                break;
            };
            let ends = HEADERS_OR_DATA.contains(kind) && flags & END_STREAM != 0;
            requests += usize::from(ends);
            frames = rest;
        }
        requests
    }
}
