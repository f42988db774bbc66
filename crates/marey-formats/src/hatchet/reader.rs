//! Words into a profile. Whatever the schema does not name is skipped.

use std::collections::HashSet;
use std::sync::Arc;

use marey_model::metric::MetricValue;

use super::error::{Cause, Fault};
use super::profile::{Meta, MetricKey, Node, NodeId, Profile};
use super::token::{Token, Tokens};

/// Deepest tree that is read, in levels. What is deeper is taken for damage.
pub const MAX_DEPTH: usize = 10_000;

pub(super) type Result<T> = std::result::Result<T, Fault>;

pub(super) fn read_profile<'a>(tokens: impl Tokens<'a>) -> Result<Profile> {
    let mut reader = Reader {
        tokens,
        nodes: Vec::new(),
        meta: Meta::default(),
        keys: HashSet::new(),
        unnamed: HashSet::new(),
    };
    reader.start_list("the list [ROOT, DEVICES]")?;
    reader.tree()?;
    let devices = match reader.tokens.next()? {
        Token::ListEnd => Vec::new(),
        Token::MapStart => {
            let devices = reader.devices()?;
            reader.end_list("the end of the list [ROOT, DEVICES]")?;
            devices
        }
        other => return Err(reader.tokens.unexpected("the map of devices", &other)),
    };
    reader.tokens.finish()?;
    Ok(Profile { nodes: reader.nodes, devices, meta: reader.meta })
}

pub(super) struct Reader<T> {
    pub(super) tokens: T,
    pub(super) nodes: Vec<Node>,
    pub(super) meta: Meta,
    keys: HashSet<MetricKey>,
    /// Nodes of the current path whose name has not come yet.
    unnamed: HashSet<NodeId>,
}

/// What the walk is inside of.
#[derive(Clone, Copy)]
enum Inside {
    Node(NodeId),
    Children(NodeId),
}

/// The tree.
impl<'a, T: Tokens<'a>> Reader<T> {
    fn tree(&mut self) -> Result<()> {
        self.start_map("the root node")?;
        let mut path = vec![Inside::Node(self.add_node(None))];
        while let Some(&inside) = path.last() {
            match (inside, self.tokens.next()?) {
                (Inside::Node(id), Token::Key(key)) => match &*key {
                    "children" => {
                        self.start_list("the list of children")?;
                        path.push(Inside::Children(id));
                    }
                    "frame" => self.frame(id)?,
                    "metrics" => self.metrics(id)?,
                    "marey" => self.extras(id)?,
                    _ => self.skip()?,
                },
                (Inside::Node(id), _) => {
                    if self.unnamed.remove(&id) {
                        return Err(self.tokens.fault(Cause::Nameless));
                    }
                    path.pop();
                }
                (Inside::Children(parent), Token::MapStart) => {
                    // Two levels of the path, a node and its children, are one of the tree.
                    if path.len() / 2 >= MAX_DEPTH {
                        return Err(self.tokens.fault(Cause::TooDeep { limit: MAX_DEPTH }));
                    }
                    path.push(Inside::Node(self.add_node(Some(parent))));
                }
                (Inside::Children(_), Token::ListEnd) => {
                    path.pop();
                }
                (Inside::Children(_), other) => {
                    return Err(self.tokens.unexpected("a node", &other));
                }
            }
        }
        Ok(())
    }

    fn add_node(&mut self, parent: Option<NodeId>) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.unnamed.insert(id);
        if let Some(parent) = parent {
            self.nodes[parent.index()].children.push(id);
        }
        self.nodes.push(Node {
            name: Box::default(),
            kind: None,
            parent,
            children: Vec::new(),
            metrics: Vec::new(),
            sketch: Vec::new(),
        });
        id
    }
}

/// What a node holds.
impl<'a, T: Tokens<'a>> Reader<T> {
    fn frame(&mut self, id: NodeId) -> Result<()> {
        self.map("the frame", |reader, key| {
            if key == "name" {
                reader.nodes[id.index()].name = reader.text()?.into();
                reader.unnamed.remove(&id);
                return Ok(());
            }
            reader.skip()
        })
    }

    fn metrics(&mut self, id: NodeId) -> Result<()> {
        self.map("the map of metrics", |reader, key| {
            let key = reader.intern(key);
            let value = reader.metric_value()?;
            reader.nodes[id.index()].metrics.push((key, value));
            Ok(())
        })
    }

    fn intern(&mut self, key: &str) -> MetricKey {
        if let Some(known) = self.keys.get(key) {
            return known.clone();
        }
        let key: MetricKey = Arc::from(key);
        self.keys.insert(key.clone());
        key
    }

    fn metric_value(&mut self) -> Result<MetricValue> {
        match self.tokens.next()? {
            Token::Int(value) => Ok(MetricValue::Int(value)),
            Token::Float(value) => Ok(MetricValue::Float(value)),
            // JSON has no other word for NaN.
            Token::Null => Ok(MetricValue::Float(f64::NAN)),
            Token::Text(value) => Ok(MetricValue::Text(value.into())),
            Token::ListStart => self.metric_list(),
            other => Err(self.tokens.unexpected("a number, a text or a list of numbers", &other)),
        }
    }

    fn metric_list(&mut self) -> Result<MetricValue> {
        let mut wholes = Vec::new();
        let mut reals = Vec::new();
        loop {
            match self.tokens.next()? {
                Token::Int(value) if reals.is_empty() => wholes.push(value),
                Token::Int(value) => reals.push(value as f64),
                Token::Float(value) => push_real(&mut reals, &mut wholes, value),
                Token::Null => push_real(&mut reals, &mut wholes, f64::NAN),
                Token::ListEnd if reals.is_empty() => return Ok(MetricValue::Ints(wholes)),
                Token::ListEnd => return Ok(MetricValue::Floats(reals)),
                other => return Err(self.tokens.unexpected("a number", &other)),
            }
        }
    }
}

/// One real number makes the whole list real.
fn push_real(reals: &mut Vec<f64>, wholes: &mut Vec<i64>, value: f64) {
    reals.extend(wholes.drain(..).map(|whole| whole as f64));
    reals.push(value);
}
