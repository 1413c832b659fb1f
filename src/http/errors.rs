//! What the errors of HTTP clients say. See "By error" in the room's documentation.

use std::error::Error;
use std::io;

use ::http::Uri;
use ::http::uri::{InvalidUri, InvalidUriParts};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use tower_service::Service;

use crate::circuit_breaker::BreakerOpen;
use crate::policy::recognise;
use crate::see;
use crate::verdict::Verdict;

/// The error of hyper-util's connector, which has no public name.
type ConnectError = <HttpConnector as Service<Uri>>::Error;

/// The verdict on an error, by the types in its chain, the outermost first; what nobody recognises is `Unknown`.
pub(super) fn verdict(error: &(dyn Error + 'static)) -> Verdict {
    let mut connecting = false;
    for link in see::chain(error) {
        connecting |= is_connect(link);
        let verdict = if connecting {
            of_connecting(link)
        } else {
            of_request(link)
        };
        if let Some(verdict) = verdict {
            return verdict;
        }
    }
    if connecting {
        // Nothing was sent.
        Verdict::REFUSED
    } else {
        Verdict::UNKNOWN
    }
}

/// Whether this and everything below it happened before there was a connection to send anything on.
fn is_connect(link: &(dyn Error + 'static)) -> bool {
    let client = link.downcast_ref::<legacy::Error>();
    client.is_some_and(legacy::Error::is_connect) || link.is::<ConnectError>()
}

/// A link of an error in the connect phase. A phase is not a verdict: what a repeat will not mend is not retried.
fn of_connecting(link: &(dyn Error + 'static)) -> Option<Verdict> {
    if link.is::<BreakerOpen>() || is_bad_uri(link) {
        return Some(Verdict::Rejected);
    }
    if let Some(error) = link.downcast_ref::<ConnectError>() {
        // Without a cause it did not even try: the scheme is not its own, or there is no host.
        return error.source().is_none().then_some(Verdict::Rejected);
    }
    match link.downcast_ref::<io::Error>()?.kind() {
        // The handshake went through its peer's data and did not like them: certificates are here.
        io::ErrorKind::InvalidData => Some(Verdict::Fault),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Some(Verdict::Rejected),
        _ => None,
    }
}

/// A link of any other error.
fn of_request(link: &(dyn Error + 'static)) -> Option<Verdict> {
    if let Some(error) = link.downcast_ref::<legacy::Error>() {
        return Some(of_client(error));
    }
    if let Some(error) = link.downcast_ref::<hyper::Error>() {
        return Some(of_exchange(error));
    }
    if is_bad_uri(link) {
        return Some(Verdict::Rejected);
    }
    of_stream(link).or_else(|| recognise(link))
}

/// hyper-util's client, after it had a connection or where it wanted none.
fn of_client(error: &legacy::Error) -> Verdict {
    let Some(source) = error.source() else {
        // It refused the request itself: its version, its method, or a target without a host.
        return Verdict::Rejected;
    };
    match source.downcast_ref::<hyper::Error>() {
        // The connection closed while the request was waiting for it, and hyper still has it whole. Only under the
        // client: by itself, `is_canceled` is also an upgrade that was not granted, after a request that was sent.
        Some(error) if error.is_canceled() => Verdict::REFUSED,
        Some(error) => of_exchange(error),
        None => Verdict::UNKNOWN,
    }
}

/// hyper, with the request on its way. What is below says nothing of it, a refused connection for example: it may be
/// the cause of the failure of the request's own body. Except for a peer that says it did not look at the stream.
fn of_exchange(error: &hyper::Error) -> Verdict {
    let source = error.source().filter(|_| !error.is_user());
    source.and_then(of_stream).unwrap_or(Verdict::UNKNOWN)
}

/// A stream of HTTP/2. That the peer refused it is proof that it was not processed (RFC 9113 §8.7). A GOAWAY is none:
/// it is one for streams above its last identifier only (§6.8), and h2 does not say whether this one is.
#[cfg(feature = "http2")]
fn of_stream(link: &(dyn Error + 'static)) -> Option<Verdict> {
    let error = link.downcast_ref::<h2::Error>()?;
    let refused = error.is_reset() && error.is_remote();
    if refused && error.reason() == Some(h2::Reason::REFUSED_STREAM) {
        Some(Verdict::REFUSED)
    } else {
        Some(Verdict::UNKNOWN)
    }
}

#[cfg(not(feature = "http2"))]
fn of_stream(_: &(dyn Error + 'static)) -> Option<Verdict> {
    None
}

/// Whether there was no request to send, because its target is no URI.
fn is_bad_uri(link: &(dyn Error + 'static)) -> bool {
    link.is::<::http::Error>() || link.is::<InvalidUri>() || link.is::<InvalidUriParts>()
}
