//! Requests to the API server on behalf of steps, with the patience a scenario needs: what fails because the server is
//! away, busy or not yet ready for a new kind is sent again until the step's time is up. Every other refusal is final.

use std::time::Duration;

use kube::Error;
use tokio::time::Instant;

/// Sends a request until it is answered for good or time is up. `call` is told whether an earlier attempt got lost on
/// the way, in which case its effect may already be there.
pub(super) async fn persist<T, Call, Answer>(deadline: Instant, mut call: Call) -> Result<T, Error>
where
    Call: FnMut(bool) -> Answer,
    Answer: Future<Output = Result<T, Error>>,
{
    let mut pause = Duration::from_millis(25);
    let mut lost = false;
    loop {
        let error = match tokio::time::timeout_at(deadline, call(lost)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => return Err(Error::Service("no answer before the time was up".into())),
        };
        if !is_passing(&error) || Instant::now() + pause >= deadline {
            return Err(error);
        }
        lost |= !matches!(error, Error::Api(_));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// Whether the same request may well succeed in a moment.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Api(status) => match status.code {
            429 | 502..=504 => true,
            // The kind has only just been defined; a missing object is reported with its kind and name instead.
            404 => {
                status.message.contains("could not find the requested resource")
                    || status.message.contains("page not found")
            }
            // The controllers have not yet made the service account of a new namespace.
            403 => status.message.contains("error looking up service account"),
            // An admission webhook that has only just been registered is not reached yet.
            500 => status.message.contains("failed calling webhook"),
            _ => false,
        },
        Error::HyperError(_) | Error::Service(_) | Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Whether the object is already there.
pub(super) fn is_already_there(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// Whether somebody else wrote in between.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409 && status.reason == "Conflict")
}

/// Whether the object is not there.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn refusal(code: u16, message: &str) -> Error {
        Error::Api(Box::new(Status {
            code,
            message: message.to_owned(),
            ..Status::default()
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn passing_refusals_are_tried_again_until_time_is_up() {
        let mut attempts = 0;
        let deadline = Instant::now() + Duration::from_secs(10);
        let answer = persist(deadline, |_| {
            attempts += 1;
            let answer = if attempts < 4 {
                Err(refusal(503, "busy"))
            } else {
                Ok(attempts)
            };
            async move { answer }
        });
        assert_eq!(answer.await.unwrap(), 4);

        let hopeless = persist(Instant::now() + Duration::from_secs(10), |_| async {
            Err::<(), _>(refusal(503, "busy"))
        });
        assert!(hopeless.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn other_refusals_are_final() {
        for (code, message) in [
            (404, "pods \"a\" not found"),
            (409, "conflict"),
            (422, "invalid"),
            (403, "not allowed"),
        ] {
            let mut attempts = 0;
            let answer = persist(Instant::now() + Duration::from_secs(10), |_| {
                attempts += 1;
                async move { Err::<(), _>(refusal(code, message)) }
            });
            assert!(answer.await.is_err());
            assert_eq!(attempts, 1, "{code}");
        }
    }
}
