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
/// Line ends, runs of letters that have a case, of punctuation, of spaces at
/// the end, of Chinese and Korean. Escaped, since an editor that composes
/// characters would change the ranges.
const DEEPSEEK_WORDS: [&str; 5] = [
    r"[\r\n]",
    concat!(
        r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}",
        r"\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}",
        r"\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}",
        r"\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}",
        r"\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}",
        r"\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}",
        r"\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}",
        r"\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}",
        r"\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}",
        r"\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}",
        r"\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}",
        r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}",
        r"\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}",
        r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}",
        r"\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}",
        r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}",
        r"\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}",
        r"\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}",
        r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}",
        r"\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}",
        r"\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}",
        r"\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}",
        r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+",
    ),
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
    r"\s+$",
    r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
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
