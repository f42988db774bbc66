//! Command lines without their secrets.
//!
//! What looks like a secret is blotted out, rather once too often: the value of an option or a variable
//! with a telling name, the user of a URL, and words in the shapes that well-known services give
//! their keys.

/// What stands for a secret.
pub const BLOT: &str = "***";

/// Names that contain one of these hold secrets. Case, `-` and `_` do not matter.
const NAMES: [&str; 12] = [
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

/// Parts of harmless names that contain one of [`NAMES`].
const HARMLESS: [&str; 3] = ["tokeniz", "tokenis", "author"];

/// How keys of well-known services begin.
const SHAPES: [&str; 14] = [
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

/// Fewest bytes of a key with such a beginning.
const KEY_BYTES: usize = 16;

/// A command line with its secrets blotted out. It has as many arguments as the original.
///
/// ```
/// use marey_model::redact::argv;
///
/// let argv = argv(&["train.py", "--hf-token", "abc", "API_KEY=x", "--lr=0.1"].map(str::to_owned));
/// assert_eq!(argv, ["train.py", "--hf-token", "***", "API_KEY=***", "--lr=0.1"]);
/// ```
pub fn argv(argv: &[String]) -> Vec<String> {
    let before = std::iter::once("").chain(argv.iter().map(String::as_str));
    argv.iter().zip(before).map(|(argument, before)| redacted(argument, before)).collect()
}

fn redacted(argument: &str, before: &str) -> String {
    let is_value = before.starts_with('-') && !before.contains('=') && !argument.starts_with("--");
    if is_value && is_secret(before, argument) {
        return BLOT.to_owned();
    }
    without_keys(&without_users(&without_values(argument)))
}

/// Whether a value is a secret by its name.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "").replace("authori", "auth");
    let name = HARMLESS.iter().fold(name, |name, harmless| name.replace(harmless, ""));
    let is_count = name.contains("tokens") && value.parse::<f64>().is_ok();
    !is_count && NAMES.iter().any(|secret| name.contains(secret))
}

/// Blots out what follows `name=` or `name:`, wherever in an argument that stands.
fn without_values(argument: &str) -> String {
    const SEPARATORS: [char; 2] = ['=', ':'];
    let is_end_of_name = |letter: char| !letter.is_alphanumeric() && !"-_.".contains(letter);
    for (at, separator) in argument.match_indices(SEPARATORS) {
        // A name may be quoted, as in JSON.
        let before = argument[..at].trim_end_matches(['"', '\'', ' ']);
        let name = before.rsplit(is_end_of_name).next().unwrap_or_default();
        let value = &argument[at + separator.len()..];
        if !value.is_empty() && is_secret(name, value) {
            return format!("{}{separator}{BLOT}", &argument[..at]);
        }
    }
    argument.to_owned()
}

/// Blots out the user, with the password, of each URL.
fn without_users(argument: &str) -> String {
    let mut parts = argument.split("://");
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let authority = part.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        redacted.push_str("://");
        match authority.rfind('@') {
            Some(at) => redacted.extend([BLOT, &part[at..]]),
            None => redacted.push_str(part),
        }
    }
    redacted
}

/// Blots out words that look like keys.
fn without_keys(argument: &str) -> String {
    let is_in_word = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let mut redacted = String::new();
    let mut rest = argument;
    while !rest.is_empty() {
        let word_bytes = rest.find(|letter| !is_in_word(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_bytes);
        redacted.push_str(if is_key(word) { BLOT } else { word });
        let gap_bytes = after.find(is_in_word).unwrap_or(after.len());
        redacted.push_str(&after[..gap_bytes]);
        rest = &after[gap_bytes..];
    }
    redacted
}

fn is_key(word: &str) -> bool {
    word.len() >= KEY_BYTES
        && SHAPES.iter().any(|shape| word.starts_with(shape))
        && word.contains(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redacted(line: &[&str]) -> Vec<String> {
        argv(&line.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn values_of_telling_names_are_blotted_out() {
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
            assert_eq!(redacted(&[name, "hunter2"]), [name, BLOT]);
            assert_eq!(redacted(&[&format!("{name}=hunter2")]), [format!("{name}=***")]);
        }
        for (argument, expected) in [
            ("HF_TOKEN=hunter2", "HF_TOKEN=***"),
            ("+model.auth.token=hunter2", "+model.auth.token=***"),
            ("Authorization: Bearer hunter2", "Authorization:***"),
            (r#"{"lr": 0.1, "api_key": "hunter2"}"#, r#"{"lr": 0.1, "api_key":***"#),
            ("https://host/x?a=1&token=hunter2", "https://host/x?a=1&token=***"),
            ("import x; x.login(password='hunter2')", "import x; x.login(password=***"),
        ] {
            assert_eq!(redacted(&[argument]), [expected]);
        }
    }

    #[test]
    fn users_of_urls_are_blotted_out() {
        for (argument, expected) in [
            ("postgres://me:hunter2@db/x", "postgres://***@db/x"),
            ("--proxy=http://me:hunter2@proxy:80", "--proxy=http://***@proxy:80"),
            ("a://u@h b://v:w@i", "a://***@h b://***@i"),
            ("https://host/me@home", "https://host/me@home"),
        ] {
            assert_eq!(redacted(&[argument]), [expected]);
        }
    }

    #[test]
    fn keys_of_well_known_services_are_blotted_out() {
        for key in [
            "hf_aB3dE5fG7hI9jK1lM3nO5pQ7",
            "sk-proj-aB3dE5fG7hI9jK1lM3",
            "ghp_aB3dE5fG7hI9jK1lM3nO5p",
            "AKIAIOSFODNN7EXAMPLE",
        ] {
            assert_eq!(redacted(&[key, &format!("--x={key}, y")]), ["***", "--x=***, y"]);
        }
    }

    #[test]
    fn what_is_harmless_stays() {
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
            assert_eq!(redacted(&line), line);
        }
    }

    proptest! {
        #[test]
        fn any_command_line_keeps_its_length(line in proptest::collection::vec(".*", 0..6)) {
            let twice = argv(&argv(&line));
            prop_assert_eq!(argv(&line).len(), line.len());
            prop_assert_eq!(argv(&line), twice);
        }
    }
}
