//! A Hugging Face tokenizer with the three ways of treating special tokens
//! that a server needs.

use std::collections::{BTreeMap, BTreeSet};

use tokenizers::{
    AddedToken, AddedVocabulary, Model, NormalizerWrapper, OffsetReferential,
    OffsetType, PreTokenizedString, PreTokenizer,
};

use crate::error::{Failure, Outcome};

/// Stands before text that a special token precedes, so that pre-tokenizers
/// which treat a text's beginning differently see that it is none. Characters
/// that Unicode keeps out of text.
const GUARD: &str = "\u{FDD0}\u{FDEF}\u{FDD1}";

const NO_ID: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    ParseSpecials,
    Text,
    TextInside,
}

pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The same added tokens, of which special ones are not looked for, and
    /// the guard.
    text_vocabulary: AddedVocabulary,
    /// The same added tokens, looked for as they are written. Its ids are its
    /// own: contents count.
    split_vocabulary: AddedVocabulary,
    specials: BTreeMap<u32, String>,
    size: usize,
    first_token: Option<u32>,
}

impl Tokenizer {
    pub fn from_json(json: &str) -> Outcome<Self> {
        let mut inner = tokenizers::Tokenizer::from_bytes(json.as_bytes())
            .map_err(|e| Failure::corrupt(format!("tokenizer.json: {e}")))?;
        // A saved tokenizer may carry its training's limits; a prompt is
        // never cut or padded in silence.
        inner.with_truncation(None).map_err(Failure::corrupt)?;
        inner.with_padding(None);
        Self::new(inner)
    }

    pub fn new(mut inner: tokenizers::Tokenizer) -> Outcome<Self> {
        inner.set_encode_special_tokens(false);
        let added = inner.get_added_vocabulary();
        let tokens = added.get_added_tokens_decoder();

        let mut text_vocabulary = added.clone();
        text_vocabulary.set_encode_special_tokens(true);
        text_vocabulary
            .add_tokens(
                [AddedToken::from(GUARD, false).normalized(false)],
                inner.get_model(),
                inner.get_normalizer(),
            )
            .map_err(Failure::corrupt)?;

        let mut split_vocabulary = AddedVocabulary::new();
        split_vocabulary
            .add_tokens(
                tokens.values().map(|t| t.clone().normalized(false)),
                inner.get_model(),
                None::<&NormalizerWrapper>,
            )
            .map_err(Failure::corrupt)?;

        let specials = tokens
            .iter()
            .filter(|(_, token)| token.special)
            .map(|(id, token)| (*id, token.content.clone()))
            .collect();
        let size = inner
            .get_vocab(true)
            .values()
            .max()
            .map_or(0, |largest| *largest as usize + 1);
        let mut tokenizer = Tokenizer {
            inner,
            text_vocabulary,
            split_vocabulary,
            specials,
            size,
            first_token: None,
        };
        tokenizer.first_token = tokenizer.find_first_token();
        Ok(tokenizer)
    }

    pub fn encode(&self, text: &str, mode: Mode) -> Outcome<Vec<u32>> {
        if mode == Mode::ParseSpecials {
            let encoding = self.inner.encode_fast(text, false);
            return Ok(encoding.map_err(Failure::invalid)?.get_ids().to_vec());
        }
        // Parts still to be tokenized, the next one last. A part is cut where
        // tokenizing it whole would give an id that no text may become.
        let mut todo = vec![text];
        let mut mode = mode;
        let mut ids = Vec::new();
        while let Some(part) = todo.pop() {
            let found = self.encode_part(part, mode)?;
            let cuts = self.cuts(part, &found);
            if cuts.is_empty() {
                ids.extend(found);
                mode = Mode::TextInside;
                continue;
            }
            let mut end = part.len();
            for at in cuts.into_iter().rev() {
                todo.push(&part[at..end]);
                end = at;
            }
            todo.push(&part[..end]);
        }
        Ok(ids)
    }

    fn encode_part(&self, text: &str, mode: Mode) -> Outcome<Vec<u32>> {
        if mode == Mode::Text || text.contains(GUARD) {
            return self.encode_text(text);
        }
        let ids = self.encode_text(&format!("{GUARD}{text}"))?;
        Ok(ids[1..].to_vec())
    }

    fn encode_text(&self, text: &str) -> Outcome<Vec<u32>> {
        let mut pieces = self
            .text_vocabulary
            .extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer
                .pre_tokenize(&mut pieces)
                .map_err(Failure::invalid)?;
        }
        let model = self.inner.get_model();
        pieces
            .tokenize(|piece| model.tokenize(piece.get()))
            .map_err(Failure::invalid)?;
        let encoding = pieces
            .into_encoding(None, 0, OffsetType::None)
            .map_err(Failure::invalid)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Where to cut `text`, whose ids these are: inside every spelling of a
    /// special token that the model made of ordinary text (Unigram, whose
    /// pieces include them, and BPE that takes whole words do), and inside
    /// every guard that the text itself contains. Ascending; empty: nowhere.
    fn cuts(&self, text: &str, ids: &[u32]) -> Vec<usize> {
        let spelled: BTreeSet<&str> = ids
            .iter()
            .filter_map(|id| self.specials.get(id))
            .map(String::as_str)
            .chain([GUARD])
            .collect();
        let mut cuts: Vec<usize> = spelled
            .into_iter()
            .flat_map(|content| {
                let first = content.chars().next().map_or(0, char::len_utf8);
                let inside = first < content.len();
                text.match_indices(content)
                    .filter(move |_| inside)
                    .map(move |(at, _)| at + first)
            })
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    pub fn split(&self, text: &str) -> Outcome<Vec<u32>> {
        if text.len() >= NO_ID as usize {
            return Err(Failure::invalid("the text is 4 GiB or longer"));
        }
        let pieces: PreTokenizedString = self
            .split_vocabulary
            .extract_and_normalize(None::<&NormalizerWrapper>, text);
        let decoder = self.split_vocabulary.get_added_tokens_decoder();
        let mut triples: Vec<u32> = Vec::new();
        for (_, (begin, end), tokens) in
            pieces.get_splits(OffsetReferential::Original, OffsetType::Byte)
        {
            let special = tokens
                .as_ref()
                .and_then(|tokens| decoder.get(&tokens[0].id))
                .filter(|token| token.special)
                .and_then(|token| self.inner.token_to_id(&token.content));
            let last = triples.len();
            match special {
                Some(id) => triples.extend([id, begin as u32, end as u32]),
                // Added tokens that are not special are found again when
                // their piece is tokenized.
                None if last > 0 && triples[last - 3] == NO_ID => {
                    triples[last - 1] = end as u32
                }
                None if begin < end => {
                    triples.extend([NO_ID, begin as u32, end as u32])
                }
                None => {}
            }
        }
        Ok(triples)
    }

    pub fn decode(&self, ids: &[u32], skip_specials: bool) -> Outcome<String> {
        self.inner.decode(ids, skip_specials).map_err(Failure::invalid)
    }

    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn specials(&self) -> Vec<u32> {
        self.specials.keys().copied().collect()
    }

    pub fn token_text(&self, id: u32) -> Outcome<String> {
        if let Some(content) = self.specials.get(&id) {
            return Ok(content.clone());
        }
        self.inner
            .id_to_token(id)
            .ok_or_else(|| Failure::invalid(format!("no token has id {id}")))
    }

    pub fn first_token(&self) -> Option<u32> {
        self.first_token
    }

    fn find_first_token(&self) -> Option<u32> {
        let with = self.inner.encode_fast("a", true).ok()?;
        let without = self.inner.encode_fast("a", false).ok()?;
        let (with, without) = (with.get_ids(), without.get_ids());
        let first = *with.first()?;
        let added = with.len() > without.len()
            && Some(&first) != without.first()
            && self.specials.contains_key(&first);
        added.then_some(first)
    }
}
