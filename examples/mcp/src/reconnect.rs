use std::future::Future;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use rmcp::RoleClient;
use rmcp::service::{Peer, RunningService};
use tokio::sync::Mutex;
use tower::Service;
use tower_composure::tool::ToolResponse;
use tower_composure::{BoxError, ToolCall};

use crate::client::{Answer, request, send};

/// The tools of an MCP server whose connection is made when it is needed, and again once it has been lost.
///
/// The call during which it was lost fails, and its outcome is unknown. The next one, or a retry where the policy allows
/// it, goes over a new connection. A connection that cannot be made has sent nothing, and says so by its type.
pub struct Reconnecting<C> {
    connect: Arc<C>,
    running: Arc<Mutex<Option<RunningService<RoleClient, ()>>>>,
}

impl<C, F> Reconnecting<C>
where
    C: Fn() -> F,
    F: Future<Output = Result<RunningService<RoleClient, ()>, BoxError>>,
{
    pub fn new(connect: C) -> Self {
        Self {
            connect: Arc::new(connect),
            running: Arc::default(),
        }
    }

    /// The peer of a connection that is up, as far as anybody knows.
    pub async fn peer(&self) -> Result<Peer<RoleClient>, BoxError> {
        let mut running = self.running.lock().await;
        let up = running
            .as_ref()
            .filter(|running| !running.is_closed() && !running.peer().is_transport_closed());
        if let Some(up) = up {
            return Ok(up.peer().clone());
        }
        *running = None;
        let fresh = (self.connect)()
            .await
            // Nothing was sent, which this kind tells the policy.
            .map_err(|error| io::Error::new(io::ErrorKind::ConnectionRefused, error))?;
        Ok(running.insert(fresh).peer().clone())
    }
}

impl<C, F> Service<ToolCall> for Reconnecting<C>
where
    C: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Result<RunningService<RoleClient, ()>, BoxError>> + Send,
{
    type Response = ToolResponse;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Answer {
        let this = self.clone();
        let request = request(call);
        Box::pin(async move {
            let peer = this.peer().await?;
            send(&peer, request).await
        })
    }
}

impl<C> Clone for Reconnecting<C> {
    fn clone(&self) -> Self {
        Self {
            connect: Arc::clone(&self.connect),
            running: Arc::clone(&self.running),
        }
    }
}
