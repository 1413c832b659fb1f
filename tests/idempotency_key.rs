//! One key for each logical call: made once, the same on every attempt, and never instead of the caller's.
#![cfg(all(not(loom), feature = "http"))]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod support;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderName, Method, Request, Response, StatusCode};
use support::charges::{Server, at_once, keys, request, retry};
use support::{Script, Step};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_composure::{HttpPolicy, IdempotencyKey, IdempotencyKeyLayer, KeyFormat, RetryLayer};

fn failing_twice() -> Server {
    let unavailable = || Step::Ok(StatusCode::SERVICE_UNAVAILABLE);
    Server::new([unavailable(), unavailable(), Step::Ok(StatusCode::OK)])
}

#[tokio::test(start_paused = true)]
async fn case_135_a_callers_key_is_never_overwritten() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let layer = IdempotencyKeyLayer::new().key_fn(move |_: &Request<()>| {
        count.fetch_add(1, Ordering::Relaxed);
        IdempotencyKey::random()
    });
    for name in ["idempotency-key", "Idempotency-Key", "IDEMPOTENCY-KEY"] {
        let server = failing_twice();
        let service = layer.layer(retry().layer(server.clone()));
        let mut post = request(Method::POST);
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        post.headers_mut().insert(name, "abc".parse().unwrap());
        service.oneshot(post).await.unwrap();
        assert_eq!(keys(&server), [["abc"], ["abc"], ["abc"]]);
    }
    // An outer layer's key is the caller's to a layer further down.
    let server = failing_twice();
    let outer = IdempotencyKeyLayer::new()
        .key_fn(|_: &Request<()>| IdempotencyKey::new("from above").unwrap());
    let service = outer.layer(retry().layer(layer.layer(server.clone())));
    service.oneshot(request(Method::POST)).await.unwrap();
    assert_eq!(
        keys(&server),
        [["from above"], ["from above"], ["from above"]]
    );
    assert_eq!(made.load(Ordering::Relaxed), 0);
}

async fn one_key_a_call<S>(server: &Server, client: S)
where
    S: Service<Request<()>, Error: Debug> + Clone,
{
    client.clone().oneshot(request(Method::POST)).await.unwrap();
    let first = keys(server);
    assert_eq!(first.len(), 3);
    assert_eq!(first[0].len(), 1);
    assert!(first.iter().all(|lines| *lines == first[0]));
    client.oneshot(request(Method::POST)).await.unwrap();
    assert_ne!(keys(server)[3], first[0], "another call, another key");
}

#[tokio::test(start_paused = true)]
async fn case_136_one_key_a_call_in_either_order() {
    let server = failing_twice();
    let above = IdempotencyKeyLayer::new().layer(retry().layer(server.clone()));
    one_key_a_call(&server, above).await;
    let server = failing_twice();
    let below = retry().layer(IdempotencyKeyLayer::new().layer(server.clone()));
    one_key_a_call(&server, below).await;
    assert!(
        IdempotencyKey::current().is_none(),
        "nothing is left behind"
    );
}

#[tokio::test(start_paused = true)]
async fn case_138_a_derived_key_depends_on_what_it_is_told_to() {
    let layer = IdempotencyKeyLayer::new().key_fn(|request: &Request<(u32, u32)>| {
        let (order, _timestamp) = request.body();
        IdempotencyKey::new(format!("order-{order}")).unwrap()
    });
    let service = layer.layer(tower::service_fn(
        |request: Request<(u32, u32)>| async move {
            Ok::<_, ()>(request.headers()["idempotency-key"].clone())
        },
    ));
    let key = async |order, timestamp| {
        let post = request(Method::POST).map(|()| (order, timestamp));
        service.clone().oneshot(post).await.unwrap()
    };
    assert_eq!(key(1, 1).await, key(1, 2).await);
    assert_ne!(key(1, 1).await, key(2, 1).await);
}

#[tokio::test(start_paused = true)]
async fn case_140_only_methods_that_need_one_get_a_key() {
    for (method, keyed) in [
        (Method::GET, false),
        (Method::HEAD, false),
        (Method::PUT, false),
        (Method::DELETE, false),
        (Method::OPTIONS, false),
        (Method::POST, true),
        (Method::PATCH, true),
    ] {
        let server = Server::new([Step::Ok(StatusCode::OK)]);
        let service = IdempotencyKeyLayer::new().layer(server.clone());
        service
            .clone()
            .oneshot(request(method.clone()))
            .await
            .unwrap();
        assert_eq!(keys(&server)[0].len(), usize::from(keyed), "{method}");
        let mut own = request(method);
        own.headers_mut()
            .insert("idempotency-key", "mine".parse().unwrap());
        service.oneshot(own).await.unwrap();
        assert_eq!(keys(&server)[1], ["mine"]);
    }
    let server = Server::new([Step::Ok(StatusCode::OK)]);
    let layer = IdempotencyKeyLayer::new().methods([Method::PUT, Method::GET]);
    for method in [Method::PUT, Method::GET, Method::POST, Method::HEAD] {
        let service = layer.layer(server.clone());
        service.oneshot(request(method)).await.unwrap();
    }
    let keyed: Vec<usize> = keys(&server).iter().map(Vec::len).collect();
    assert_eq!(keyed, [1, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn case_143_a_key_makes_a_post_retryable_where_the_server_honours_it() {
    let calls = async |honours: bool, key: Option<&str>| {
        let policy = HttpPolicy::new().server_honours_keys(honours);
        let server = Script::<Request<()>, Status, std::io::ErrorKind>::new([
            Step::Ok(Status(StatusCode::SERVICE_UNAVAILABLE)),
            Step::Ok(Status(StatusCode::OK)),
        ]);
        let mut post = request(Method::POST);
        if let Some(key) = key {
            post.headers_mut()
                .insert("idempotency-key", key.parse().unwrap());
        }
        let layer = at_once(RetryLayer::builder(policy));
        let service = layer.layer(
            ServiceBuilder::new()
                .map_response(respond)
                .service(server.clone()),
        );
        service.oneshot(post).await.unwrap();
        server.calls()
    };
    assert_eq!(calls(true, Some("abc")).await, 2);
    assert_eq!(calls(false, Some("abc")).await, 1);
    assert_eq!(calls(true, None).await, 1);
    assert_eq!(calls(true, Some("")).await, 1, "an empty key is none");
}

#[derive(Clone)]
struct Status(StatusCode);

fn respond(Status(status): Status) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    response
}

#[tokio::test(start_paused = true)]
async fn an_empty_header_is_filled() {
    let server = Server::new([Step::Ok(StatusCode::OK)]);
    let mut post = request(Method::POST);
    post.headers_mut()
        .insert("idempotency-key", "".parse().unwrap());
    IdempotencyKeyLayer::new()
        .layer(server.clone())
        .oneshot(post)
        .await
        .unwrap();
    assert_eq!(keys(&server)[0].len(), 1);
    assert_eq!(keys(&server)[0][0].len(), 36, "a UUID");
}

#[tokio::test(start_paused = true)]
async fn the_structured_form_is_a_quoted_string() {
    let write = async |key: &'static str| {
        let server = Server::new([Step::Ok(StatusCode::OK)]);
        let layer = IdempotencyKeyLayer::new()
            .format(KeyFormat::Structured)
            .key_fn(move |_: &Request<()>| IdempotencyKey::new(key).unwrap());
        layer
            .layer(server.clone())
            .oneshot(request(Method::POST))
            .await
            .unwrap();
        keys(&server)[0][0].clone()
    };
    assert_eq!(write("8e03978e").await, r#""8e03978e""#);
    assert_eq!(write(r#"a"b\c"#).await, r#""a\"b\\c""#);
}

#[tokio::test(start_paused = true)]
async fn another_header_may_carry_it() {
    let name = HeaderName::from_static("x-request-key");
    let service = IdempotencyKeyLayer::new()
        .header(name.clone())
        .layer(tower::service_fn(|request: Request<()>| async move {
            Ok::<_, ()>(request.headers().clone())
        }));
    let headers = service.oneshot(request(Method::POST)).await.unwrap();
    assert!(headers.contains_key(&name) && !headers.contains_key("idempotency-key"));
    assert!(
        headers[&name].is_sensitive(),
        "debug output does not show it"
    );
}

#[test]
fn a_key_is_printable_and_not_printed() {
    for bad in ["", "a\nb", "schlüssel", "\u{7f}", "\t"] {
        assert!(IdempotencyKey::new(bad).is_err(), "{bad:?}");
    }
    let key = IdempotencyKey::new("SECRET123").unwrap();
    assert!(!format!("{key:?}").contains("SECRET"));
    assert_ne!(IdempotencyKey::random(), IdempotencyKey::random());
}
