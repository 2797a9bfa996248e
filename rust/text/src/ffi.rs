//! The C functions: pointers to borrowed Rust values and back, and the place
//! where panics stop. No logic of its own.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::chat_template::ChatTemplate;
use crate::error::{Failure, Outcome, INVALID, PANIC};
use crate::gguf_vocabulary::{self, Vocabulary};
use crate::stream::Stream;
use crate::tokenizer::{Mode, Tokenizer};

thread_local! {
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct GgufVocabulary {
    model: Text,
    pre: Text,
    tokens: *const Text,
    token_count: usize,
    types: *const i32,
    type_count: usize,
    merges: *const Text,
    merge_count: usize,
}

fn remember(message: String) {
    LAST_ERROR.with(|last| *last.borrow_mut() = message);
}

/// Panics say nothing on standard error: their text and place become the
/// message of the call that they end.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            remember(format!("panic: {info}"))
        }));
    });
}

/// Runs a call's body; errors and panics become a status and a message.
fn guarded(body: impl FnOnce() -> Outcome<()>) -> i32 {
    quiet_panics();
    // Safe to unwind through: every shared value is immutable, and a stream
    // that panicked is only ever freed or pushed again, never read partly.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => {
            remember(failure.message);
            failure.status
        }
        Err(_) => PANIC,
    }
}

/// The same for calls that return a number, where failing means `otherwise`.
fn guarded_number<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    quiet_panics();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

unsafe fn array<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, size)
}

unsafe fn text<'a>(text: Text) -> Outcome<&'a str> {
    let bytes = array(text.data, text.size);
    std::str::from_utf8(bytes).map_err(|e| Failure {
        status: INVALID,
        message: format!("the text is not UTF-8 at byte {}", e.valid_up_to()),
    })
}

fn give<T>(mut values: Vec<T>, out: *mut Owned<T>) {
    let owned = Owned {
        data: values.as_mut_ptr(),
        size: values.len(),
        capacity: values.capacity(),
    };
    std::mem::forget(values);
    unsafe { out.write(owned) };
}

fn give_box<T>(value: T, out: *mut *mut T) {
    unsafe { out.write(Box::into_raw(Box::new(value))) };
}

unsafe fn free_box<T>(value: *mut T) {
    if !value.is_null() {
        guarded_number((), || drop(Box::from_raw(value)));
    }
}

unsafe fn free_owned<T>(owned: Owned<T>) {
    if !owned.data.is_null() {
        drop(Vec::from_raw_parts(owned.data, owned.size, owned.capacity));
    }
}

#[no_mangle]
pub unsafe extern "C" fn reprise_buffer_free(buffer: Owned<u8>) {
    free_owned(buffer);
}

#[no_mangle]
pub unsafe extern "C" fn reprise_ids_free(ids: Owned<u32>) {
    free_owned(ids);
}

#[no_mangle]
pub extern "C" fn reprise_last_error() -> Text {
    LAST_ERROR.with(|last| {
        let last = last.borrow();
        Text { data: last.as_ptr(), size: last.len() }
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_from_json(
    json: Text,
    out: *mut *mut Tokenizer,
) -> i32 {
    guarded(|| {
        give_box(Tokenizer::from_json(text(json)?)?, out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_from_gguf(
    vocabulary: *const GgufVocabulary,
    out: *mut *mut Tokenizer,
) -> i32 {
    guarded(|| {
        let v = &*vocabulary;
        let all = |data, size| -> Outcome<Vec<&str>> {
            array(data, size).iter().map(|t| text(*t)).collect()
        };
        let (tokens, merges) =
            (all(v.tokens, v.token_count)?, all(v.merges, v.merge_count)?);
        let inner = gguf_vocabulary::build(&Vocabulary {
            model: text(v.model)?,
            pre: text(v.pre)?,
            tokens: &tokens,
            types: array(v.types, v.type_count),
            merges: &merges,
        })?;
        give_box(Tokenizer::new(inner)?, out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_free(tokenizer: *mut Tokenizer) {
    free_box(tokenizer);
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_encode(
    tokenizer: *const Tokenizer,
    input: Text,
    mode: i32,
    out: *mut Owned<u32>,
) -> i32 {
    guarded(|| {
        let mode = match mode {
            0 => Mode::ParseSpecials,
            1 => Mode::Text,
            2 => Mode::TextInside,
            _ => return Err(Failure::invalid(format!("encode mode {mode}"))),
        };
        give((*tokenizer).encode(text(input)?, mode)?, out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_split(
    tokenizer: *const Tokenizer,
    input: Text,
    out: *mut Owned<u32>,
) -> i32 {
    guarded(|| {
        give((*tokenizer).split(text(input)?)?, out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    count: usize,
    skip_specials: i32,
    out: *mut Owned<u8>,
) -> i32 {
    guarded(|| {
        let decoded =
            (*tokenizer).decode(array(ids, count), skip_specials != 0)?;
        give(decoded.into_bytes(), out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_token_id(
    tokenizer: *const Tokenizer,
    token: Text,
) -> i64 {
    guarded_number(-1, || match text(token) {
        Ok(token) => (*tokenizer).token_id(token).map_or(-1, i64::from),
        Err(_) => -1,
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_size(
    tokenizer: *const Tokenizer,
) -> usize {
    guarded_number(0, || (*tokenizer).size())
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_specials(
    tokenizer: *const Tokenizer,
    out: *mut Owned<u32>,
) -> i32 {
    guarded(|| {
        give((*tokenizer).specials(), out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_token_text(
    tokenizer: *const Tokenizer,
    id: u32,
    out: *mut Owned<u8>,
) -> i32 {
    guarded(|| {
        give((*tokenizer).token_text(id)?.into_bytes(), out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_tokenizer_first_token(
    tokenizer: *const Tokenizer,
) -> i64 {
    guarded_number(-1, || (*tokenizer).first_token().map_or(-1, i64::from))
}

#[no_mangle]
pub unsafe extern "C" fn reprise_stream_new(out: *mut *mut Stream) -> i32 {
    guarded(|| {
        give_box(Stream::default(), out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_stream_free(stream: *mut Stream) {
    free_box(stream);
}

#[no_mangle]
pub unsafe extern "C" fn reprise_stream_push(
    stream: *mut Stream,
    tokenizer: *const Tokenizer,
    id: u32,
    out: *mut Owned<u8>,
) -> i32 {
    guarded(|| {
        give((*stream).push(&*tokenizer, id)?.into_bytes(), out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_stream_finish(
    stream: *mut Stream,
    tokenizer: *const Tokenizer,
    out: *mut Owned<u8>,
) -> i32 {
    guarded(|| {
        give((*stream).finish(&*tokenizer)?.into_bytes(), out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_template_compile(
    source: Text,
    out: *mut *mut ChatTemplate,
) -> i32 {
    guarded(|| {
        give_box(ChatTemplate::compile(text(source)?)?, out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn reprise_template_free(compiled: *mut ChatTemplate) {
    free_box(compiled);
}

#[no_mangle]
pub unsafe extern "C" fn reprise_template_render(
    compiled: *const ChatTemplate,
    context: Text,
    now: i64,
    out: *mut Owned<u8>,
) -> i32 {
    guarded(|| {
        let rendered = (*compiled).render(text(context)?, now)?;
        give(rendered.into_bytes(), out);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn reprise_debug_panic() -> i32 {
    guarded(|| panic!("asked to"))
}
