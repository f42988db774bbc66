use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> (String, Vec<PathStep>) {
    let expression = Expression::parse(text).unwrap();
    (expression.name().to_owned(), expression.steps().cloned().collect())
}

fn refused(text: &str) -> String {
    Expression::parse(text).unwrap_err().to_string()
}

#[test]
fn names_attributes_and_indexes_are_parsed() {
    let attribute = |name: &str| PathStep::Attribute(name.to_owned());
    let (name, steps) = parsed(" model.layers[3] . weight ");
    assert_eq!(name, "model");
    assert_eq!(steps, [attribute("layers"), PathStep::Index(3), attribute("weight")]);
    assert_eq!(parsed("args[-1]").1, [PathStep::Index(-1)]);
    assert_eq!(parsed(r#"config["lr"]['a b']"#).1.len(), 2);
    assert_eq!(parsed(r"c['it\'s \x41\u00e9\n']").1, [PathStep::Key("it's Aé\n".to_owned())]);
    assert_eq!(parsed("größe._x1"), ("größe".to_owned(), vec![attribute("_x1")]));
}

#[test]
fn what_would_run_code_is_refused_with_the_reason_and_the_column() {
    for (text, reason) in [
        ("f(1)", "a call would run code of the program, in column 2"),
        ("a.b()", "a call would run code of the program, in column 4"),
        ("a + 1", "operators would run code of the program, in column 3"),
        ("a == b", "operators would run code of the program, in column 3"),
        ("-a", "operators would run code of the program, in column 1"),
        ("a[1:2]", "a slice is made by code of the program, in column 4"),
        ("a[i]", "an index must be an integer or a text in quotes, in column 3"),
        ("a[1.5]", "an index must be an integer or a text in quotes, in column 4"),
        ("a[1 + 1]", "operators would run code of the program, in column 5"),
        ("a[1", "`]` is missing, in column 4"),
        ("a['x]", "the closing quote is missing, in column 6"),
        ("a[99999999999999999999]", "the index is too large, in column 3"),
        ("a.", "a name is missing, in column 3"),
        ("", "a name is missing, in column 1"),
        ("3", "a name is missing, in column 1"),
        ("a b", "only `.name` or `[index]` may follow, in column 3"),
        ("a; b", "only `.name` or `[index]` may follow, in column 2"),
    ] {
        assert_eq!(refused(text), format!("`{text}` cannot be inspected: {reason}"));
    }
    assert!(refused(&"a".repeat(5000)).contains("longer than 4,096 bytes"));
}

#[test]
fn a_prefix_is_the_text_up_to_a_step() {
    let expression = Expression::parse(" a.b [0].c").unwrap();
    let prefixes: Vec<_> = (0..4).map(|count| expression.prefix(count)).collect();
    assert_eq!(prefixes, ["a", "a.b", "a.b [0]", "a.b [0].c"]);
    assert_eq!(expression.to_string(), "a.b [0].c");
}

fn step() -> impl Strategy<Value = PathStep> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,8}".prop_map(PathStep::Attribute),
        any::<i64>().prop_map(PathStep::Index),
        any::<String>().prop_map(PathStep::Key),
    ]
}

fn written(name: &str, steps: &[PathStep]) -> String {
    let escaped = |key: &str| {
        let code = |character| format!("\\U{:08x}", character as u32);
        key.chars().map(code).collect::<String>()
    };
    let step = |step: &PathStep| match step {
        PathStep::Attribute(name) => format!(".{name}"),
        PathStep::Index(index) => format!("[{index}]"),
        PathStep::Key(key) => format!("['{}']", escaped(key)),
    };
    name.to_owned() + &steps.iter().map(step).collect::<String>()
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in any::<String>()) {
        if let Err(refused) = Expression::parse(&text) {
            prop_assert!(refused.column <= text.chars().count() + 1);
        }
    }

    #[test]
    fn any_text_of_the_characters_of_expressions_is_parsed_or_refused(
        text in r#"[a-c\.\[\]"'\\ xuU0-9\-:(é]{0,40}"#
    ) {
        if let Ok(expression) = Expression::parse(&text) {
            let again = Expression::parse(&expression.to_string()).unwrap();
            prop_assert_eq!(again.to_string(), expression.to_string());
            prop_assert_eq!(again.prefix(again.steps().len()), again.to_string());
        }
    }

    #[test]
    fn a_written_expression_has_its_steps(steps in prop::collection::vec(step(), 0..8)) {
        let text = written("name", &steps);
        prop_assume!(text.len() <= MAX_EXPRESSION_BYTES);
        prop_assert_eq!(parsed(&text), ("name".to_owned(), steps));
    }
}
