//! What can go wrong, as the C side sees it: a status and a message.

pub const INVALID: i32 = 1;
pub const UNSUPPORTED: i32 = 2;
pub const CORRUPT: i32 = 3;
pub const PANIC: i32 = 4;

#[derive(Debug)]
pub struct Failure {
    pub status: i32,
    pub message: String,
}

pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn invalid(message: impl ToString) -> Self {
        Failure { status: INVALID, message: message.to_string() }
    }

    pub fn unsupported(message: impl ToString) -> Self {
        Failure { status: UNSUPPORTED, message: message.to_string() }
    }

    pub fn corrupt(message: impl ToString) -> Self {
        Failure { status: CORRUPT, message: message.to_string() }
    }
}
