//! What the HTTP policy says of methods and statuses, and what becomes of requests and responses.
#![cfg(all(not(loom), feature = "http"))]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use support::Step;
use support::http_policy::{
    Reply, SECOND, Server, answer, calls, classify, ok, policy, request, run,
};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};
use tower_composure::retry::replay_fn;
use tower_composure::{
    Attempt, Backoff, CallReport, DeadlineExceeded, DeadlineLayer, Effect, Policy, RetryLayer,
    StopReason, Verdict,
};

// D. What may be retried.

#[tokio::test(start_paused = true)]
async fn case_037_a_request_is_not_repeated_because_it_can_be_cloned() {
    let steps = || vec![ok(502), ok(200)];
    let unknown = Method::from_bytes(b"FOO").unwrap();
    for method in [Method::POST, Method::PATCH, Method::CONNECT, unknown] {
        assert_eq!(calls(method.clone(), steps()).await, 1, "{method}");
    }
    for method in [
        Method::PUT,
        Method::DELETE,
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::TRACE,
    ] {
        assert_eq!(calls(method.clone(), steps()).await, 2, "{method}");
    }
    let server = Server::new(steps());
    let mut marked = request(Method::POST);
    marked.extensions_mut().insert(Effect::IdempotentWrite);
    run(policy(), marked, 60 * SECOND, &server).await.0.unwrap();
    assert_eq!(server.calls(), 2);
    let told = policy().method(Method::POST, Effect::IdempotentWrite);
    let server = Server::new(steps());
    run(told, request(Method::POST), 60 * SECOND, &server)
        .await
        .0
        .unwrap();
    assert_eq!(server.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn case_038_a_timeout_proves_nothing() {
    for (method, expected) in [(Method::POST, 1), (Method::GET, 2)] {
        let server = Server::new([Step::Hang, ok(200)]);
        let layer = RetryLayer::builder(policy())
            .backoff(Backoff::none())
            .build()
            .unwrap();
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::call(10 * SECOND))
            .layer(layer)
            .layer(DeadlineLayer::attempt(SECOND))
            .map_response(|Reply(status, _): Reply| answer(status, &[]))
            .map_err(|kind: io::ErrorKind| BoxError::from(io::Error::from(kind)))
            .service(server.clone());
        let outcome = service.oneshot(request(method)).await;
        assert_eq!((server.calls(), server.age()), (expected, SECOND));
        if expected == 1 {
            assert!(
                DeadlineExceeded::find(&*outcome.unwrap_err())
                    .unwrap()
                    .is_attempt()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_050_one_list_in_one_place() {
    for (status, expected) in [
        (408, 2),
        (429, 2),
        (502, 2),
        (503, 2),
        (504, 2),
        (500, 1),
        (499, 1),
    ] {
        assert_eq!(
            calls(Method::GET, vec![ok(status), ok(200)]).await,
            expected,
            "{status}"
        );
    }
    for status in [520, 522, 524, 529] {
        assert_eq!(
            calls(Method::GET, vec![ok(status), ok(200)]).await,
            1,
            "{status} by default"
        );
        let known = StatusCode::from_u16(status).unwrap();
        let server = Server::new([ok(status), ok(200)]);
        let extended = policy().status(known, Verdict::UNKNOWN);
        run(extended, request(Method::GET), 60 * SECOND, &server)
            .await
            .0
            .unwrap();
        assert_eq!(server.calls(), 2, "{status} by opt-in");
    }
}

#[test]
fn what_is_said_of_one_status_or_method_is_said_of_no_other_and_the_last_word_counts() {
    let policy = policy()
        .status(StatusCode::NOT_FOUND, Verdict::Fault)
        .status(StatusCode::INTERNAL_SERVER_ERROR, Verdict::REFUSED)
        .status(StatusCode::NOT_FOUND, Verdict::UNKNOWN)
        .method(Method::POST, Effect::Read)
        .method(Method::GET, Effect::Write)
        .method(Method::POST, Effect::IdempotentWrite);
    let of = |status| classify(&policy, Ok(&answer(status, &[])));
    assert_eq!((of(404), of(500)), (Verdict::UNKNOWN, Verdict::REFUSED));
    let policy: &dyn Policy<Request<String>, Response<()>, BoxError> = &policy;
    let effect = |method| policy.effect(&request(method));
    assert_eq!(effect(Method::POST), Effect::IdempotentWrite);
    assert_eq!(effect(Method::GET), Effect::Write);
}

#[tokio::test(start_paused = true)]
async fn case_051_too_early_is_retried_once() {
    assert_eq!(calls(Method::POST, vec![ok(425), ok(200)]).await, 2);
    assert_eq!(
        calls(Method::POST, vec![ok(425), ok(425), ok(200)]).await,
        2
    );
    assert_eq!(calls(Method::POST, vec![ok(421), ok(200)]).await, 2);
    assert_eq!(
        calls(Method::POST, vec![ok(429), ok(425), ok(200)]).await,
        3
    );
}

#[tokio::test(start_paused = true)]
async fn case_052_client_errors_are_not_retried() {
    for status in [400, 401, 403, 404, 405, 409, 410, 422] {
        let server = Server::new([ok(status), ok(200)]);
        run(policy(), request(Method::GET), 60 * SECOND, &server)
            .await
            .0
            .unwrap();
        assert_eq!(
            (server.calls(), server.age()),
            (1, Duration::ZERO),
            "{status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn case_054_a_gateway_timeout_is_ambiguous() {
    let steps = || vec![ok(504), ok(200)];
    assert_eq!(calls(Method::GET, steps()).await, 2);
    assert_eq!(calls(Method::POST, steps()).await, 1);
}

// E. Replaying the request.

#[tokio::test(start_paused = true)]
async fn case_055_a_replay_is_the_same_in_everything() {
    #[derive(Debug, Clone, PartialEq)]
    struct Ctx(u32);
    let server = Server::new([ok(503), ok(200)]);
    let mut put = request(Method::PUT);
    *put.version_mut() = Version::HTTP_2;
    put.headers_mut()
        .insert("content-length", "5".parse().unwrap());
    put.extensions_mut().insert(Ctx(7));
    run(policy(), put, 60 * SECOND, &server).await.0.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        let request = seen.request;
        assert_eq!(
            (request.method(), request.version()),
            (&Method::PUT, Version::HTTP_2)
        );
        assert_eq!(
            request.headers().get_all("content-length").iter().count(),
            1
        );
        assert_eq!(request.extensions().get::<Ctx>(), Some(&Ctx(7)));
        assert_eq!(request.body(), "hello");
    }
}

#[tokio::test(start_paused = true)]
async fn case_060_extensions_and_version_are_kept_and_an_attempt_adds_its_own() {
    #[derive(Debug, Clone, PartialEq)]
    struct Ctx(u32);
    let server = Server::new([ok(503), ok(200)]);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(policy()))
        .map_request(|mut request: Request<_>| {
            let attempt = Attempt::current().unwrap();
            request.extensions_mut().insert(attempt);
            request
        })
        .map_response(|Reply(status, _): Reply| answer(status, &[]))
        .service(server.clone());
    let mut get = request(Method::GET);
    *get.version_mut() = Version::HTTP_2;
    get.extensions_mut().insert(Ctx(7));
    service.oneshot(get).await.unwrap();
    let seen = server.seen().into_iter().map(|seen| {
        let extensions = seen.request.extensions();
        let number = extensions.get::<Attempt>().map(Attempt::number);
        let context = extensions.get::<Ctx>().cloned();
        (seen.request.version(), context, number)
    });
    let kept = |number| (Version::HTTP_2, Some(Ctx(7)), Some(number));
    assert_eq!(seen.collect::<Vec<_>>(), [kept(1), kept(2)]);
}

/// A body that can be read once, so it cannot be cloned.
struct OneShot(Vec<u8>);

#[tokio::test(start_paused = true)]
async fn case_056_a_body_that_cannot_be_replayed_is_sent_once() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&sent);
    let layer = RetryLayer::builder(policy())
        .replay(replay_fn(|_: &Request<OneShot>| None))
        .build()
        .unwrap();
    let service = layer.layer(tower::service_fn(move |request: Request<OneShot>| {
        log.lock().unwrap().push(request.into_body().0);
        async { Ok::<_, BoxError>(answer(503, &[("x-reason", b"db")])) }
    }));
    let put = Request::put("/").body(OneShot(b"three chunks".to_vec()));
    let (outcome, report) = CallReport::of(service.oneshot(put.unwrap())).await;
    let response = outcome.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["x-reason"], "db");
    assert_eq!(*sent.lock().unwrap(), [b"three chunks"]);
    let stop = report.unwrap().stop_reason();
    assert_eq!(stop.map(StopReason::as_str), Some("not_replayable"));
}

#[tokio::test(start_paused = true)]
async fn case_063_nothing_is_repeated_after_the_head() {
    let calls = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&calls);
    let layer = RetryLayer::new(policy());
    let service = layer.layer(tower::service_fn(move |_: Request<()>| {
        count.fetch_add(1, Ordering::Relaxed);
        let cut = async { Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))) };
        let body = Full::new(Bytes::from_static(b"A")).map_err(|never| match never {});
        async { Ok::<_, io::Error>(Response::new(Box::pin(body.with_trailers(cut)))) }
    }));
    let (outcome, report) = CallReport::of(service.oneshot(Request::new(()))).await;
    let mut body = outcome.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "A");
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(report.unwrap().attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_in_the_response_where_there_is_something_to_say() {
    let report = async |steps: Vec<_>| {
        let server = Server::new(steps);
        let (outcome, _) = run(policy(), request(Method::GET), 60 * SECOND, &server).await;
        outcome.unwrap().extensions().get::<CallReport>().copied()
    };
    assert_eq!(report(vec![ok(200)]).await, None);
    assert_eq!(report(vec![ok(503), ok(200)]).await.unwrap().attempts(), 2);
    let stopped = report(vec![ok(404)]).await.unwrap();
    assert_eq!(
        (stopped.attempts(), stopped.verdict()),
        (1, Verdict::Rejected)
    );
}

// K. Idempotency keys, as the server answers to them.

fn keyed() -> Request<String> {
    let mut post = request(Method::POST);
    let key = HeaderValue::from_static("k");
    post.headers_mut().insert("idempotency-key", key);
    post
}

/// A policy over an API whose 409 has a code, and the code in the body of the answers.
async fn coded(request: Request<String>, steps: Vec<Step<Reply, io::ErrorKind>>) -> (usize, u16) {
    let policy = policy()
        .server_honours_keys(true)
        .conflict_means_in_progress(true)
        .refine(|response: &Response<String>, verdict| {
            let conflict = response.status() == StatusCode::CONFLICT;
            if conflict && response.body() != "idempotency_key_in_use" {
                Verdict::Rejected
            } else {
                verdict
            }
        });
    let server = Server::new(steps);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .map_response(|Reply(status, headers): Reply| {
            let code = headers.first().map_or("", |(_, code)| code);
            answer(status, &[]).map(|()| code.to_owned())
        })
        .map_err(|kind: io::ErrorKind| BoxError::from(io::Error::from(kind)))
        .service(server.clone());
    let status = service.oneshot(request).await.unwrap().status().as_u16();
    let mut seen = server.seen().into_iter();
    let first = seen.next().unwrap().request.headers().clone();
    assert!(seen.all(|seen| *seen.request.headers() == first), "one key");
    (server.calls(), status)
}

#[tokio::test(start_paused = true)]
async fn case_141_a_conflict_with_ones_own_first_try_is_waited_for() {
    let conflict = |code: &str| Step::Ok(Reply(409, vec![("code", code.to_owned())]));
    let in_use = || {
        vec![
            Step::Err(io::ErrorKind::ConnectionReset),
            conflict("idempotency_key_in_use"),
            ok(201),
        ]
    };
    assert_eq!(coded(keyed(), in_use()).await, (3, 201));
    let version = vec![conflict("version_conflict"), ok(201)];
    assert_eq!(coded(keyed(), version).await, (1, 409));
    let unkeyed = vec![conflict("idempotency_key_in_use"), ok(201)];
    assert_eq!(coded(request(Method::POST), unkeyed).await, (1, 409));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_waited_for_only_where_someone_said_so_and_a_key_went_along() {
    let told = policy().server_honours_keys(true);
    let waits = told.clone().conflict_means_in_progress(true);
    for (policy, request, expected) in [
        (told, keyed(), 1),
        (waits.clone(), keyed(), 2),
        (waits.clone(), request(Method::POST), 1),
        (waits.clone(), request(Method::PUT), 1),
    ] {
        let server = Server::new([ok(409), ok(201)]);
        run(policy, request, 60 * SECOND, &server).await.0.unwrap();
        assert_eq!(server.calls(), expected);
    }
    // The same key with another payload: no wait makes that right.
    let server = Server::new([ok(422), ok(201)]);
    run(waits.clone(), keyed(), 60 * SECOND, &server)
        .await
        .0
        .unwrap();
    assert_eq!(server.calls(), 1);
    // What the user says of the status comes first.
    let server = Server::new([ok(409), ok(201)]);
    let settled = waits.status(StatusCode::CONFLICT, Verdict::Rejected);
    run(settled, keyed(), 60 * SECOND, &server).await.0.unwrap();
    assert_eq!(server.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_key_is_none_in_any_form() {
    for (key, expected) in [("k", 2), ("\"k\"", 2), ("", 1), ("  ", 1), ("\"\"", 1)] {
        let mut post = request(Method::POST);
        let value = HeaderValue::from_bytes(key.as_bytes()).unwrap();
        post.headers_mut().insert("idempotency-key", value);
        let server = Server::new([ok(503), ok(200)]);
        let honours = policy().server_honours_keys(true);
        run(honours, post, 60 * SECOND, &server).await.0.unwrap();
        assert_eq!(server.calls(), expected, "{key:?}");
    }
}
