//! How large a query may be: what is too deep would end on the stack of the engine's threads, and
//! what is too large would be planned without an end.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Visit, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::SqlError;

/// What nests without parentheses, as a chain of sums does. Plans are walked recursively, and so
/// many levels fit on the stack of the engine's threads several times.
const MAX_OPERATORS: usize = 650;

/// How deep a pair of parentheses after a keyword may lie in such pairs. Where one cannot be read, as
/// in `CAST(CAST(…`, the parser reads each a second time in another way.
const MAX_KEYWORD_DEPTH: usize = 10;

/// What is planned in about a second. A query in WITH is planned wherever it is named.
const MAX_WEIGHT: usize = 150_000;

const WEIGHT_OF_LITERAL: usize = 1;
const WEIGHT_OF_EXPRESSION: usize = 10;
/// A table or a view has columns, and is joined to others.
const WEIGHT_OF_TABLE: usize = 1_000;

/// Refuses a text that could nest deeper than is planned, before anything is made of it.
pub(super) fn check_depth(tokens: &[Token]) -> Result<(), SqlError> {
    let operators = tokens.iter().filter(|token| may_nest(token)).count();
    if operators > MAX_OPERATORS {
        return Err(SqlError::TooDeep { operators, max_operators: MAX_OPERATORS });
    }
    if keyword_depth(tokens) > MAX_KEYWORD_DEPTH {
        let message = format!("the query nests more than {MAX_KEYWORD_DEPTH} levels deep");
        return Err(SqlError::Plan { message });
    }
    Ok(())
}

/// The most pairs of parentheses after keywords that lie in each other.
fn keyword_depth(tokens: &[Token]) -> usize {
    let (mut open, mut depth, mut max_depth) = (Vec::new(), 0, 0);
    let mut is_after_keyword = false;
    for token in tokens {
        match token {
            Token::LParen => {
                open.push(is_after_keyword);
                depth += usize::from(is_after_keyword);
                max_depth = max_depth.max(depth);
            }
            Token::RParen => depth -= usize::from(open.pop().unwrap_or_default()),
            _ => {}
        }
        if !matches!(token, Token::Whitespace(_)) {
            is_after_keyword =
                matches!(token, Token::Word(word) if word.keyword != Keyword::NoKeyword);
        }
    }
    max_depth
}

/// Whether it can make an expression or a query one level deeper: all but the few that are known
/// not to. Parentheses have a limit of their own in the parser.
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

/// Refuses a query that is too large once the queries in WITH stand where they are named.
pub(super) fn check_size(statement: &Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Explain(explain) => check_size(&explain.statement),
        Statement::Statement(inner) => match inner.visit(&mut Size::default()) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(TooLarge) => Err(SqlError::Plan {
                message: "the query is too large, with those in WITH wherever they are named"
                    .into(),
            }),
        },
        _ => Ok(()), // changes something, and is refused as such
    }
}

struct TooLarge;

/// The weight of everything in a statement, as often as it is planned.
#[derive(Default)]
struct Size {
    /// Of the queries that are being visited, outermost first.
    open: Vec<usize>,
    /// The queries in WITH that are yet to be visited, by their place in memory.
    names: HashMap<*const Query, String>,
    /// Of the queries in WITH; of several with one name, the largest.
    named: HashMap<String, usize>,
}

impl Size {
    fn add(&mut self, weight: usize) -> ControlFlow<TooLarge> {
        let Some(open) = self.open.last_mut() else { return ControlFlow::Continue(()) };
        *open += weight;
        if *open > MAX_WEIGHT { ControlFlow::Break(TooLarge) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Size {
    type Break = TooLarge;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<TooLarge> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.names.insert(&raw const *table.query, table.alias.name.value.to_lowercase());
        }
        self.open.push(WEIGHT_OF_EXPRESSION);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<TooLarge> {
        let weight = self.open.pop().unwrap_or_default();
        if let Some(name) = self.names.remove(&std::ptr::from_ref(query)) {
            let named = self.named.entry(name).or_default();
            *named = weight.max(*named);
        }
        self.add(weight)
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<TooLarge> {
        self.add(match expression {
            Expr::Value(_) => WEIGHT_OF_LITERAL,
            _ => WEIGHT_OF_EXPRESSION,
        })
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<TooLarge> {
        let name = name.0.last().map(|part| part.to_string().trim_matches('"').to_lowercase());
        let named = name.and_then(|name| self.named.get(&name).copied());
        self.add(named.unwrap_or_default() + WEIGHT_OF_TABLE)
    }
}
