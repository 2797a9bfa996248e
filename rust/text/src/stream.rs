//! A reply's ids → text as it becomes certain.
//!
//! Decoding is not local: a character may be spread over tokens, and some
//! decoders look at neighbours. So each step decodes a short window of ids
//! again, the ids of the last given piece and those since, and gives what is
//! new once the window ends in a whole character. That is the way of Hugging
//! Face's `DecodeStream`, of which this differs in two points: a decoder that
//! changes its mind about text already given is no error, and a run of bytes
//! that never becomes a character does not grow the window without bound.

use crate::error::Outcome;
use crate::tokenizer::Tokenizer;

const REPLACEMENT: char = '\u{FFFD}';

/// Ids that may wait for their character to end before the window is cut. A
/// character has at most four bytes, so a longer wait is no character.
const WAITING_MAX: usize = 16;

#[derive(Default)]
pub struct Stream {
    /// The window; the first `given` of them are already in `prefix`.
    ids: Vec<u32>,
    given: usize,
    /// The part of the window's text that was given.
    prefix: String,
}

impl Stream {
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Outcome<String> {
        self.ids.push(id);
        let text = tokenizer.decode(&self.ids, true)?;
        if text.ends_with(REPLACEMENT) {
            return match self.ids.len() - self.given >= WAITING_MAX {
                true => self.cut(tokenizer, &text),
                false => Ok(String::new()),
            };
        }
        if text.len() <= self.prefix.len() {
            return Ok(String::new());
        }
        let new = self.since_prefix(tokenizer, &text)?;
        self.ids.drain(..self.given);
        self.given = self.ids.len();
        self.prefix = tokenizer.decode(&self.ids, true)?;
        Ok(new)
    }

    pub fn finish(&mut self, tokenizer: &Tokenizer) -> Outcome<String> {
        let text = tokenizer.decode(&self.ids, true)?;
        let new = match text.len() > self.prefix.len() {
            true => self.since_prefix(tokenizer, &text)?,
            false => String::new(),
        };
        *self = Stream::default();
        Ok(new)
    }

    fn since_prefix(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
    ) -> Outcome<String> {
        match text.strip_prefix(self.prefix.as_str()) {
            Some(new) => Ok(new.to_string()),
            // A byte-fallback decoder turns a whole run of bytes into
            // replacement characters once one of them is wrong, also those
            // that were given as characters: keep what is out.
            None => tokenizer.decode(&self.ids[self.given..], true),
        }
    }

    /// Gives all but the incomplete end and starts the window there. The end
    /// begins where decoding both sides alone gives the same text.
    fn cut(&mut self, tokenizer: &Tokenizer, text: &str) -> Outcome<String> {
        for at in (self.given.max(1)..self.ids.len()).rev() {
            let head = tokenizer.decode(&self.ids[..at], true)?;
            let tail = tokenizer.decode(&self.ids[at..], true)?;
            let exact = text.strip_prefix(head.as_str()) == Some(&tail);
            if exact && head.len() >= self.prefix.len() {
                let new = self.since_prefix(tokenizer, &head)?;
                self.ids.drain(..at);
                self.given = 0;
                self.prefix.clear();
                return Ok(new);
            }
        }
        Ok(String::new())
    }
}
