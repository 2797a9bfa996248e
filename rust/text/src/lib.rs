//! Tokenizers and chat templates for the C++ server. The only door is ffi.rs;
//! `include/reprise_text.h` is its contract.

mod chat_template;
mod error;
mod ffi;
mod gguf_vocabulary;
mod python_filters;
mod python_json;
mod python_methods;
mod stream;
mod tokenizer;
