//! Rejects queries that are too deep or too large, before they are planned. A deep query would
//! overflow the stack of the engine's threads, and a large one would take unbounded time to plan.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Visit, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;

/// Most operators and keywords in a query. Each may nest an expression one level deeper without
/// parentheses, as in a chain of sums. Plans are walked recursively, and the stack of the engine's
/// threads has room for several times this many levels.
const MAX_OPERATORS: usize = 650;

/// Greatest nesting depth of parentheses that follow a keyword. If the parser fails within such a
/// pair, as in `CAST(CAST(…`, it backtracks and parses the pair a second time, so that the time
/// doubles with each level.
const MAX_KEYWORD_DEPTH: usize = 10;

/// Greatest weight of a query. Planning one of this weight takes about a second. A CTE is planned
/// again wherever it is named.
const MAX_WEIGHT: usize = 150_000;

const LITERAL_WEIGHT: usize = 1;
const EXPRESSION_WEIGHT: usize = 10;
/// The weight of a table or view, which contributes columns and is joined to others.
const TABLE_WEIGHT: usize = 1_000;

/// Rejects a query that may nest too deeply, from its tokens alone.
pub(super) fn check_depth(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let operators = tokens.iter().filter(|token| may_nest(&token.token)).count();
    if operators > MAX_OPERATORS {
        return Err(SqlError::TooDeep { operators, max_operators: MAX_OPERATORS });
    }
    if keyword_depth(tokens) > MAX_KEYWORD_DEPTH {
        let message = format!("the query nests more than {MAX_KEYWORD_DEPTH} levels deep");
        return Err(SqlError::Plan { message });
    }
    Ok(())
}

/// Returns the greatest nesting depth of parentheses that follow a keyword.
fn keyword_depth(tokens: &[TokenWithSpan]) -> usize {
    let (mut opened_after_keyword, mut depth, mut max_depth) = (Vec::new(), 0, 0);
    let mut is_after_keyword = false;
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::LParen => {
                opened_after_keyword.push(is_after_keyword);
                depth += usize::from(is_after_keyword);
                max_depth = max_depth.max(depth);
            }
            Token::RParen => depth -= usize::from(opened_after_keyword.pop().unwrap_or_default()),
            _ => {}
        }
        if !matches!(token, Token::Whitespace(_)) {
            is_after_keyword =
                matches!(token, Token::Word(word) if word.keyword != Keyword::NoKeyword);
        }
    }
    max_depth
}

/// Whether a token may nest an expression or a query one level deeper. Only a few tokens are known
/// not to. The parser itself limits parentheses.
fn may_nest(token: &Token) -> bool {
    match token {
        Token::Word(word) => !matches!(
            word.keyword,
            Keyword::NoKeyword
                | Keyword::AS
                | Keyword::ASC
                | Keyword::DESC
                | Keyword::NULL
                | Keyword::TRUE
                | Keyword::FALSE
        ),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Comma
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::RBracket
        | Token::SemiColon
        | Token::Whitespace(_)
        | Token::EOF => false,
        _ => true,
    }
}

/// Rejects a query that is too large once its CTEs are expanded.
pub(super) fn check_size(statement: &Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Explain(explain) => check_size(&explain.statement),
        Statement::Statement(inner) => match inner.visit(&mut QueryWeight::default()) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(TooLarge) => Err(SqlError::Plan {
                message: "the query is too large, with those in WITH wherever they are named"
                    .into(),
            }),
        },
        _ => Ok(()), // it would modify something, and is rejected elsewhere
    }
}

struct TooLarge;

/// A visitor that computes the weight of a statement. Everything counts as often as it is planned.
#[derive(Default)]
struct QueryWeight {
    /// The weights of the queries being visited, outermost first.
    open_weights: Vec<usize>,
    /// The names of the CTEs that are not visited yet, by the address of their query.
    cte_names: HashMap<*const Query, String>,
    /// The weights of the CTEs by name. If several CTEs have one name, the largest weight counts.
    cte_weights: HashMap<String, usize>,
}

impl QueryWeight {
    fn add(&mut self, weight: usize) -> ControlFlow<TooLarge> {
        let Some(weight_of_query) = self.open_weights.last_mut() else {
            return ControlFlow::Continue(());
        };
        *weight_of_query += weight;
        if *weight_of_query > MAX_WEIGHT {
            ControlFlow::Break(TooLarge)
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Visitor for QueryWeight {
    type Break = TooLarge;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<TooLarge> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.cte_names.insert(&raw const *table.query, table.alias.name.value.to_lowercase());
        }
        self.open_weights.push(EXPRESSION_WEIGHT);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<TooLarge> {
        let weight = self.open_weights.pop().unwrap_or_default();
        if let Some(name) = self.cte_names.remove(&std::ptr::from_ref(query)) {
            let cte_weight = self.cte_weights.entry(name).or_default();
            *cte_weight = weight.max(*cte_weight);
        }
        self.add(weight)
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<TooLarge> {
        self.add(match expression {
            Expr::Value(_) => LITERAL_WEIGHT,
            _ => EXPRESSION_WEIGHT,
        })
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<TooLarge> {
        let name = name.0.last().map(|part| part.to_string().trim_matches('"').to_lowercase());
        let cte_weight = name.and_then(|name| self.cte_weights.get(&name).copied());
        self.add(cte_weight.unwrap_or_default() + TABLE_WEIGHT)
    }
}
