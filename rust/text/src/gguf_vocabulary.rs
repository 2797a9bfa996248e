//! A GGUF file's vocabulary → a Hugging Face tokenizer.
//!
//! GGUF names the splitting of text into words (`tokenizer.ggml.pre`) without
//! spelling it out; the spellings below are those of the models' own
//! tokenizer.json files.

use ahash::AHashMap;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer,
};

use crate::error::{Failure, Outcome};

pub struct Vocabulary<'a> {
    pub model: &'a str,
    pub pre: &'a str,
    pub tokens: &'a [&'a str],
    pub types: &'a [i32],
    pub merges: &'a [&'a str],
}

const TYPE_CONTROL: i32 = 3;
const TYPE_USER_DEFINED: i32 = 4;

/// What a `tokenizer.ggml.pre` stands for.
struct Recipe {
    words: Vec<PreTokenizerWrapper>,
    /// A word that is a token is taken whole, whatever the merges say.
    whole_words: bool,
    /// Characters are composed first (é, not e + accent). GGUF has no key for
    /// it; the models' own tokenizers do it.
    compose: bool,
}

const LLAMA3_WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN2_WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN35_WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Runs of letters that have a case, of punctuation, of Chinese and Korean.
const DEEPSEEK_WORDS: [&str; 5] = [
    r"[\r\n]",
    concat!(
        r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ",
        r"Ⴀ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌ",
        r"ῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ",
        r"Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
    ),
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    r"[一-龥ࠀ-一가-퟿]+",
];

fn isolate(pattern: &str) -> Outcome<PreTokenizerWrapper> {
    let pattern = SplitPattern::Regex(pattern.to_string());
    Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
        .map(Into::into)
        .map_err(Failure::corrupt)
}

fn bytes(split_words: bool) -> PreTokenizerWrapper {
    ByteLevel::new(false, true, split_words).into()
}

fn recipe(pre: &str) -> Outcome<Recipe> {
    let digits: PreTokenizerWrapper = Digits::new(true).into();
    let plain = |words| Recipe { words, whole_words: false, compose: false };
    Ok(match pre {
        "gpt-2" | "mpt" => plain(vec![bytes(true)]),
        "smollm" | "starcoder" | "refact" | "command-r" => {
            plain(vec![digits, bytes(true)])
        }
        "llama-bpe" => Recipe {
            whole_words: true,
            ..plain(vec![isolate(LLAMA3_WORDS)?, bytes(false)])
        },
        "glm4" | "chatglm-bpe" => {
            plain(vec![isolate(LLAMA3_WORDS)?, bytes(false)])
        }
        "qwen2" => Recipe {
            compose: true,
            ..plain(vec![isolate(QWEN2_WORDS)?, bytes(false)])
        },
        "qwen35" => Recipe {
            compose: true,
            ..plain(vec![isolate(QWEN35_WORDS)?, bytes(false)])
        },
        "falcon" => plain(vec![
            Punctuation::new(SplitDelimiterBehavior::Contiguous).into(),
            bytes(true),
            Digits::new(false).into(),
            isolate("[0-9][0-9][0-9]")?,
        ]),
        "deepseek-llm" => {
            let words: Outcome<Vec<_>> =
                DEEPSEEK_WORDS.iter().map(|w| isolate(w)).collect();
            let mut words = words?;
            words.extend([digits, bytes(false)]);
            plain(words)
        }
        _ => {
            return Err(Failure::unsupported(format!(
                "the GGUF pre-tokenizer '{pre}' (tokenizer.ggml.pre) is not \
                 supported; use the model's tokenizer.json form"
            )))
        }
    })
}

/// "left right" at the first space behind the first character: a token may
/// itself begin with one.
fn split_merge(merge: &str) -> Outcome<(String, String)> {
    let first = merge.chars().next().map_or(0, char::len_utf8);
    match merge[first..].find(' ') {
        Some(at) if first + at + 1 < merge.len() => {
            let at = first + at;
            Ok((merge[..at].to_string(), merge[at + 1..].to_string()))
        }
        _ => Err(Failure::corrupt(format!(
            "tokenizer.ggml.merges: '{merge}' is not two tokens"
        ))),
    }
}

fn check(v: &Vocabulary) -> Outcome<()> {
    if v.model != "gpt2" {
        return Err(Failure::unsupported(format!(
            "the GGUF tokenizer '{}' (tokenizer.ggml.model) is not supported; \
             only 'gpt2' is, byte-level BPE",
            v.model
        )));
    }
    if v.tokens.is_empty() {
        return Err(Failure::corrupt("tokenizer.ggml.tokens is empty"));
    }
    // Some old files have no types: then all tokens are normal.
    if !v.types.is_empty() && v.types.len() != v.tokens.len() {
        return Err(Failure::corrupt(format!(
            "tokenizer.ggml.token_type has {} entries, tokens has {}",
            v.types.len(),
            v.tokens.len()
        )));
    }
    Ok(())
}

fn vocabulary(v: &Vocabulary) -> Outcome<AHashMap<String, u32>> {
    let mut ids = AHashMap::with_capacity(v.tokens.len());
    for (id, token) in v.tokens.iter().enumerate() {
        if let Some(other) = ids.insert(token.to_string(), id as u32) {
            return Err(Failure::corrupt(format!(
                "tokenizer.ggml.tokens: '{token}' stands at {other} and {id}"
            )));
        }
    }
    Ok(ids)
}

pub fn build(v: &Vocabulary) -> Outcome<Tokenizer> {
    check(v)?;
    let recipe = recipe(v.pre)?;
    let merges: Outcome<Vec<_>> =
        v.merges.iter().map(|m| split_merge(m)).collect();
    let model = BPE::builder()
        .vocab_and_merges(vocabulary(v)?, merges?)
        .ignore_merges(recipe.whole_words)
        .build()
        .map_err(|e| Failure::corrupt(format!("tokenizer.ggml: {e}")))?;

    let mut tokenizer = Tokenizer::new(model);
    if recipe.compose {
        tokenizer.with_normalizer(Some(NFC)).map_err(Failure::corrupt)?;
    }
    tokenizer.with_pre_tokenizer(Some(Sequence::new(recipe.words)));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    let added = v.tokens.iter().zip(v.types).filter_map(|(token, kind)| {
        let special = *kind == TYPE_CONTROL;
        (special || *kind == TYPE_USER_DEFINED)
            .then(|| AddedToken::from(*token, special).normalized(false))
    });
    tokenizer.add_tokens(added).map_err(Failure::corrupt)?;
    Ok(tokenizer)
}
