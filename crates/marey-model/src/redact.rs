//! Redacts secrets in command lines, before the recorder stores them.
//!
//! It redacts the values of options and variables whose names suggest a secret, the user info of
//! URLs, and words that look like the keys of well-known services. In doubt it redacts.

/// Replacement for a secret.
pub const REDACTED: &str = "***";

/// Name fragments of secrets. Case, `-` and `_` are ignored.
const SECRET_NAMES: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "credential",
    "auth",
    "privatekey",
    "accesskey",
    "bearer",
];

/// Harmless name fragments that contain one of [`SECRET_NAMES`].
const HARMLESS_NAMES: [&str; 3] = ["tokeniz", "tokenis", "author"];

/// Prefixes of the keys of well-known services.
const KEY_PREFIXES: [&str; 14] = [
    "hf_",
    "sk-",
    "sk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "eyJ",
];

/// Minimum length of a key with such a prefix.
const MIN_KEY_BYTES: usize = 16;

/// Redacts the secrets of a command line. The number of arguments stays the same.
///
/// ```
/// use marey_model::redact::redact_argv;
///
/// let argv = ["train.py", "--hf-token", "abc", "API_KEY=x", "--lr=0.1"].map(str::to_owned);
/// let expected = ["train.py", "--hf-token", "***", "API_KEY=***", "--lr=0.1"];
/// assert_eq!(redact_argv(&argv), expected);
/// ```
pub fn redact_argv(argv: &[String]) -> Vec<String> {
    let previous = std::iter::once("").chain(argv.iter().map(String::as_str));
    argv.iter()
        .zip(previous)
        .map(|(argument, previous)| redact_argument(argument, previous))
        .collect()
}

fn redact_argument(argument: &str, previous: &str) -> String {
    let is_option_value =
        previous.starts_with('-') && !previous.contains('=') && !argument.starts_with("--");
    if is_option_value && is_secret(previous, argument) {
        return REDACTED.to_owned();
    }
    redact_keys(&redact_url_users(&redact_named_values(argument)))
}

/// Whether a value is secret according to its name.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "").replace("authori", "auth");
    let name = HARMLESS_NAMES.iter().fold(name, |name, harmless| name.replace(harmless, ""));
    let is_count = name.contains("tokens") && value.parse::<f64>().is_ok();
    !is_count && SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// Redacts everything after the first `name=` or `name:` of a secret in an argument.
fn redact_named_values(argument: &str) -> String {
    const SEPARATORS: [char; 2] = ['=', ':'];
    let is_end_of_name = |letter: char| !letter.is_alphanumeric() && !"-_.".contains(letter);
    for (position, separator) in argument.match_indices(SEPARATORS) {
        // The name may be quoted, as in JSON.
        let before = argument[..position].trim_end_matches(['"', '\'', ' ']);
        let name = before.rsplit(is_end_of_name).next().unwrap_or_default();
        let value = &argument[position + separator.len()..];
        if !value.is_empty() && is_secret(name, value) {
            return format!("{}{separator}{REDACTED}", &argument[..position]);
        }
    }
    argument.to_owned()
}

/// Redacts the user and password of each URL.
fn redact_url_users(argument: &str) -> String {
    let mut parts = argument.split("://");
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    for after_scheme in parts {
        let authority = after_scheme.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        redacted.push_str("://");
        match authority.rfind('@') {
            Some(position) => redacted.extend([REDACTED, &after_scheme[position..]]),
            None => redacted.push_str(after_scheme),
        }
    }
    redacted
}

/// Redacts words that look like keys.
fn redact_keys(argument: &str) -> String {
    let is_in_word = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let mut redacted = String::new();
    let mut unread = argument;
    while !unread.is_empty() {
        let word_bytes = unread.find(|letter| !is_in_word(letter)).unwrap_or(unread.len());
        let (word, after_word) = unread.split_at(word_bytes);
        redacted.push_str(if is_service_key(word) { REDACTED } else { word });
        let gap_bytes = after_word.find(is_in_word).unwrap_or(after_word.len());
        redacted.push_str(&after_word[..gap_bytes]);
        unread = &after_word[gap_bytes..];
    }
    redacted
}

fn is_service_key(word: &str) -> bool {
    word.len() >= MIN_KEY_BYTES
        && KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
        && word.contains(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redact_line(line: &[&str]) -> Vec<String> {
        redact_argv(&line.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn values_of_secret_names_are_redacted() {
        for name in [
            "--token",
            "--hf_token",
            "-password",
            "--DB-PASSWD",
            "--api-key",
            "--apiKey",
            "--wandb_api_key",
            "--aws-secret-access-key",
            "--client-credentials",
            "--authorization",
            "--private-key",
            "--pwd",
        ] {
            assert_eq!(redact_line(&[name, "hunter2"]), [name, REDACTED]);
            assert_eq!(redact_line(&[&format!("{name}=hunter2")]), [format!("{name}=***")]);
        }
        for (argument, expected) in [
            ("HF_TOKEN=hunter2", "HF_TOKEN=***"),
            ("+model.auth.token=hunter2", "+model.auth.token=***"),
            ("Authorization: Bearer hunter2", "Authorization:***"),
            (r#"{"lr": 0.1, "api_key": "hunter2"}"#, r#"{"lr": 0.1, "api_key":***"#),
            ("https://host/x?a=1&token=hunter2", "https://host/x?a=1&token=***"),
            ("import x; x.login(password='hunter2')", "import x; x.login(password=***"),
        ] {
            assert_eq!(redact_line(&[argument]), [expected]);
        }
    }

    #[test]
    fn user_info_of_urls_is_redacted() {
        for (argument, expected) in [
            ("postgres://me:hunter2@db/x", "postgres://***@db/x"),
            ("--proxy=http://me:hunter2@proxy:80", "--proxy=http://***@proxy:80"),
            ("a://u@h b://v:w@i", "a://***@h b://***@i"),
            ("https://host/me@home", "https://host/me@home"),
        ] {
            assert_eq!(redact_line(&[argument]), [expected]);
        }
    }

    #[test]
    fn keys_of_well_known_services_are_redacted() {
        for key in [
            "hf_aB3dE5fG7hI9jK1lM3nO5pQ7",
            "sk-proj-aB3dE5fG7hI9jK1lM3",
            "ghp_aB3dE5fG7hI9jK1lM3nO5p",
            "AKIAIOSFODNN7EXAMPLE",
        ] {
            assert_eq!(redact_line(&[key, &format!("--x={key}, y")]), ["***", "--x=***, y"]);
        }
    }

    #[test]
    fn harmless_arguments_are_unchanged() {
        for line in [
            ["--tokenizer", "gpt2"],
            ["--max-tokens", "4096"],
            ["--num_tokens=1e9", "--tokenizer=bert"],
            ["--author", "Ada"],
            ["--token", "--verbose"],
            ["sk-learn-forest-classifier", "hf_model"],
            ["train.py", "--lr=0.1"],
            ["C:\\data", "host:80"],
        ] {
            assert_eq!(redact_line(&line), line);
        }
    }

    proptest! {
        #[test]
        fn redaction_keeps_the_argument_count_and_is_idempotent(line in proptest::collection::vec(".*", 0..6)) {
            let twice = redact_argv(&redact_argv(&line));
            prop_assert_eq!(redact_argv(&line).len(), line.len());
            prop_assert_eq!(redact_argv(&line), twice);
        }
    }

    #[test]
    fn only_numbers_of_tokens_are_harmless_counts() {
        assert_eq!(redact_line(&["--password", "1234"]), ["--password", REDACTED]);
        assert_eq!(redact_line(&["--stop-tokens", "abc"]), ["--stop-tokens", REDACTED]);
    }

    #[test]
    fn a_word_after_a_word_without_dash_is_unchanged() {
        for line in [["token", "abc"], ["x", "checkpoint-0123456789"], ["x", "hf_1"]] {
            assert_eq!(redact_line(&line), line);
        }
    }
}
