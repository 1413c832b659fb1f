//! The codes of gRPC.

use ::http::StatusCode;

/// How a gRPC call ended (gRPC, "Status codes and their use in gRPC").
///
/// Numbers that nobody has defined are [`Unknown`](Self::Unknown), as everywhere in gRPC.
///
/// ```
/// use tower_composure::grpc::Code;
/// use tower_composure::{GrpcPolicy, Verdict};
///
/// // This server answers UNAVAILABLE before it does anything.
/// let policy = GrpcPolicy::new().code(Code::Unavailable, Verdict::REFUSED);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// It did what was asked.
    Ok = 0,
    /// It was cancelled, usually by the caller.
    Cancelled = 1,
    /// It failed, and the server does not say how.
    Unknown = 2,
    /// An argument is wrong, whatever the state of the system.
    InvalidArgument = 3,
    /// Its deadline passed, and it may have been carried out all the same.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be made exists already.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A quota or a disk is used up.
    ResourceExhausted = 8,
    /// The state of the system does not allow it.
    FailedPrecondition = 9,
    /// It lost against something that ran at the same time.
    Aborted = 10,
    /// An argument is outside of what there is.
    OutOfRange = 11,
    /// The server does not know this method.
    Unimplemented = 12,
    /// The server is broken.
    Internal = 13,
    /// The server cannot be reached or does not serve now.
    Unavailable = 14,
    /// Data is lost or corrupt.
    DataLoss = 15,
    /// The server does not know who is calling.
    Unauthenticated = 16,
}

impl Code {
    pub(super) const COUNT: usize = 17;

    const ALL: [Self; Self::COUNT] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code of this number.
    ///
    /// ```
    /// use tower_composure::grpc::Code;
    ///
    /// assert_eq!(Code::from_number(14), Code::Unavailable);
    /// assert_eq!(Code::from_number(99), Code::Unknown);
    /// ```
    pub fn from_number(number: u64) -> Self {
        usize::try_from(number)
            .ok()
            .and_then(|index| Self::ALL.get(index).copied())
            .unwrap_or(Self::Unknown)
    }

    /// Its number.
    ///
    /// ```
    /// use tower_composure::grpc::Code;
    ///
    /// assert_eq!(Code::Unavailable.number(), 14);
    /// ```
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// What an HTTP answer that did not come from a gRPC server means (gRPC, "HTTP to gRPC Status Code Mapping").
    pub(super) fn of_http(status: StatusCode) -> Self {
        match status.as_u16() {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }
}
