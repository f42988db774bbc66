//! Optimizer rule that rewrites `GROUP BY name(x)` into `GROUP BY x`. The names are looked up once
//! per group instead of once per row.

use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, SubqueryAlias};

use super::lookup_call;
use crate::sql::lookup::Lookup;

/// Returns the aggregate over ids, below a projection that restores its columns. `None` if it
/// neither groups by a looked-up text nor counts distinct ones.
pub(super) fn group_by_ids(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(None) };
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Ok(None);
    }
    let mut input = LogicalPlan::clone(&aggregate.input);
    // For each group, the text to look up again if its id has replaced it.
    let mut texts = Vec::new();
    let mut groups = Vec::new();
    for group in &aggregate.group_expr {
        let text = find_text(&mut input, group)?;
        groups.push(text.as_ref().map_or_else(|| group.clone(), TextLookup::key));
        texts.push(text);
    }
    let mut counts_ids = false;
    let mut values = Vec::new();
    for value in &aggregate.aggr_expr {
        let by_ids = distinct_by_ids(&mut input, value)?;
        counts_ids |= by_ids.is_some();
        values.push(by_ids.unwrap_or_else(|| value.clone()));
    }
    if texts.iter().all(Option::is_none) && !counts_ids {
        return Ok(None);
    }
    let by_ids = Aggregate::try_new(Arc::new(input), groups, values)?;
    let columns: Vec<Column> = by_ids.schema.columns();
    let exprs = columns.into_iter().zip(aggregate.schema.iter()).enumerate().map(
        |(index, (column, (qualifier, field)))| {
            let value = match texts.get(index) {
                Some(Some(text)) => text.value(Expr::Column(column)),
                _ => Expr::Column(column),
            };
            value.alias_qualified(qualifier.cloned(), field.name())
        },
    );
    let exprs = exprs.collect();
    Ok(Some(LogicalPlan::Projection(Projection::try_new(
        exprs,
        Arc::new(LogicalPlan::Aggregate(by_ids)),
    )?)))
}

/// Returns `count(DISTINCT name(x))` as a distinct count of ids.
fn distinct_by_ids(input: &mut LogicalPlan, value: &Expr) -> Result<Option<Expr>> {
    let Expr::AggregateFunction(count) = value.clone().unalias() else { return Ok(None) };
    let [arg] = &count.params.args[..] else { return Ok(None) };
    if count.func.name() != "count" || !count.params.distinct {
        return Ok(None);
    }
    let Some(text) = find_text(input, arg)? else { return Ok(None) };
    let mut params = count.params.clone();
    params.args = vec![text.key()];
    Ok(Some(Expr::AggregateFunction(AggregateFunction { func: count.func, params })))
}

/// A text that is looked up by an id.
struct TextLookup {
    /// The lookup call.
    call: Expr,
    /// The argument of the call.
    id: Expr,
}

impl TextLookup {
    /// Returns an expression that is equal for two rows if and only if their texts are.
    fn key(&self) -> Expr {
        match lookup_call(&self.call) {
            Some((function, _)) if function.lookup != Lookup::Name => {
                function.first_id().call(vec![self.id.clone()])
            }
            _ => self.id.clone(), // the texts of names are unique
        }
    }

    /// Returns the text that belongs to a key.
    fn value(&self, key: Expr) -> Expr {
        let mut call = self.call.clone();
        if let Expr::ScalarFunction(function) = &mut call {
            function.args = vec![key];
        }
        call
    }
}

/// Returns the text lookup to which an expression over the plan's rows is equivalent. Changes
/// `input` to output the id if necessary.
fn find_text(input: &mut LogicalPlan, expr: &Expr) -> Result<Option<TextLookup>> {
    match expr {
        Expr::Alias(alias) => find_text(input, &alias.expr),
        Expr::Column(column) => {
            let Some((plan, text)) = expose_id(input, column)? else { return Ok(None) };
            *input = plan;
            Ok(Some(text))
        }
        call => Ok(looked_up_text(call)),
    }
}

fn looked_up_text(call: &Expr) -> Option<TextLookup> {
    let (function, id) = lookup_call(call)?;
    function.returns_text().then(|| TextLookup { call: call.clone(), id: id.clone() })
}

/// Returns the plan with an additional column: the id behind one of its columns, if that column is
/// a looked-up text.
fn expose_id(plan: &LogicalPlan, column: &Column) -> Result<Option<(LogicalPlan, TextLookup)>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let Some(index) = projection.schema.maybe_index_of_column(column) else {
                return Ok(None);
            };
            let expr = projection.expr[index].clone().unalias_nested().data;
            let mut input = LogicalPlan::clone(&projection.input);
            let Some(text) = find_text(&mut input, &expr)? else { return Ok(None) };
            let id = Column::new(column.relation.clone(), format!("__id_of_{}", column.name));
            let mut exprs = projection.expr.clone();
            if !projection.schema.has_column(&id) {
                exprs.push(text.id.alias_qualified(id.relation.clone(), &id.name));
            }
            let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?);
            Ok(Some((plan, TextLookup { id: Expr::Column(id), ..text })))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(index) = alias.schema.maybe_index_of_column(column) else { return Ok(None) };
            let inner = alias.input.schema().columns()[index].clone();
            let Some((input, text)) = expose_id(&alias.input, &inner)? else { return Ok(None) };
            let Expr::Column(id) = &text.id else { return Ok(None) };
            let id = Expr::Column(Column::new(Some(alias.alias.clone()), &id.name));
            let plan = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            Ok(Some((LogicalPlan::SubqueryAlias(plan), TextLookup { id, ..text })))
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Join(_) => {
            let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
            let Some(input) = inputs.iter_mut().find(|input| input.schema().has_column(column))
            else {
                return Ok(None);
            };
            let Some((with_id, text)) = expose_id(input, column)? else { return Ok(None) };
            *input = with_id;
            let plan = plan.with_new_exprs(plan.expressions(), inputs)?;
            // A semi join outputs the columns of only one side.
            let is_output = matches!(&text.id, Expr::Column(id) if plan.schema().has_column(id));
            Ok(is_output.then_some((plan, text)))
        }
        _ => Ok(None),
    }
}
