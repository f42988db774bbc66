//! Builds a profile from the tokens of either format. Skips keys that the schema does not name.

use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::{Device, Meta, Node, NodeId, Profile, Sketch};

use super::columns::MetricColumns;
use super::error::{SyntaxCause, SyntaxFault};
use super::token::{Token, Tokens};
use crate::shared::MAX_DEPTH;
use crate::shared::interned::InternedTexts;

pub(super) type Result<T> = std::result::Result<T, SyntaxFault>;

pub(super) fn read_profile(tokens: impl Tokens) -> Result<Profile> {
    let mut reader = Reader {
        tokens,
        nodes: Vec::new(),
        sketches: Vec::new(),
        meta: Meta::default(),
        placeholder_name: "".into(),
        names: InternedTexts::default(),
        columns: MetricColumns::default(),
    };
    reader.read_list_start()?;
    reader.read_tree()?;
    let devices = reader.read_devices_after_root()?;
    reader.tokens.finish()?;
    reader.nodes.shrink_to_fit();
    reader.sketches.sort_by_key(|(node, _)| *node);
    Ok(Profile {
        nodes: reader.nodes,
        metrics: reader.columns.finish(),
        sketches: reader.sketches,
        devices,
        meta: reader.meta,
    })
}

pub(super) struct Reader<T> {
    pub(super) tokens: T,
    pub(super) nodes: Vec<Node>,
    pub(super) sketches: Vec<(NodeId, Sketch)>,
    pub(super) meta: Meta,
    /// The placeholder name of a node until its name is read.
    placeholder_name: Arc<str>,
    names: InternedTexts,
    columns: MetricColumns,
}

/// A level of the document that is open. The levels form an explicit stack.
enum Level {
    Node(OpenNode),
    Children(NodeId),
}

/// A node that is not complete yet.
pub(super) struct OpenNode {
    pub(super) id: NodeId,
    is_named: bool,
    /// The set of the keys that were read, as bits by index in [`NodeKey::ALL`].
    seen_keys: u8,
}

/// The keys of a node.
#[derive(Clone, Copy)]
enum NodeKey {
    Children,
    Frame,
    Marey,
    Metrics,
}

impl NodeKey {
    const ALL: [(&'static str, Self); 4] = [
        ("children", Self::Children),
        ("frame", Self::Frame),
        ("marey", Self::Marey),
        ("metrics", Self::Metrics),
    ];
}

/// The document.
impl<T: Tokens> Reader<T> {
    fn read_list_start(&mut self) -> Result<()> {
        let is_map = self.tokens.expect("the list [ROOT, DEVICES]", |token| match token {
            Token::ListStart => Some(false),
            Token::MapStart => Some(true),
            _ => None,
        })?;
        if !is_map {
            return Ok(());
        }
        let found = Token::MapStart.describe();
        let mut fault = self
            .tokens
            .fault(SyntaxCause::UnexpectedValue { expected: "the list [ROOT, DEVICES]", found });
        if self.has_trace_events() {
            fault.cause = SyntaxCause::Trace;
        }
        Err(fault)
    }

    /// Whether the map whose start was read has the key `traceEvents`, so that the file is a trace.
    fn has_trace_events(&mut self) -> bool {
        while let Ok(Token::Key(key)) = self.tokens.next() {
            if key == "traceEvents" {
                return true;
            }
            if self.skip().is_err() {
                return false;
            }
        }
        false
    }

    fn read_tree(&mut self) -> Result<()> {
        self.start_map("the root node")?;
        let mut levels = vec![Level::Node(self.add_node(None)?)];
        while let Some(level) = levels.last_mut() {
            match level {
                Level::Node(node) => match self.next_node_key(node)? {
                    Some(NodeKey::Children) => {
                        let id = node.id;
                        self.start_list("the list of children")?;
                        levels.push(Level::Children(id));
                    }
                    Some(NodeKey::Frame) => self.read_frame(node)?,
                    Some(NodeKey::Marey) => self.read_extras(node.id)?,
                    Some(NodeKey::Metrics) => self.read_metrics(node.id)?,
                    None => {
                        levels.pop();
                    }
                },
                &mut Level::Children(parent) => {
                    if self.start_next_child()? {
                        // A node and its list of children are two elements of `levels`, but
                        // one level of the tree.
                        if levels.len() / 2 >= MAX_DEPTH {
                            return Err(self
                                .tokens
                                .fault(SyntaxCause::TooDeep { limit: MAX_DEPTH }));
                        }
                        levels.push(Level::Node(self.add_node(Some(parent))?));
                    } else {
                        levels.pop();
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the devices after the root, if there are any.
    fn read_devices_after_root(&mut self) -> Result<Vec<Device>> {
        let has_devices = self.tokens.expect("the map of devices", |token| match token {
            Token::MapStart => Some(true),
            Token::ListEnd => Some(false),
            _ => None,
        })?;
        if !has_devices {
            return Ok(Vec::new());
        }
        let devices = self.read_devices()?;
        self.end_list("the end of the list [ROOT, DEVICES]")?;
        Ok(devices)
    }
}

/// A node.
impl<T: Tokens> Reader<T> {
    pub(super) fn add_node(&mut self, parent: Option<NodeId>) -> Result<OpenNode> {
        let index = self.nodes.len() as u32;
        if index == u32::MAX {
            return Err(self.tokens.fault(SyntaxCause::TooManyNodes));
        }
        self.nodes.push(Node { name: self.placeholder_name.clone(), kind: None, parent });
        Ok(OpenNode { id: NodeId(index), is_named: false, seen_keys: 0 })
    }

    /// Reads up to the value of the next known key. Returns `None` at the end of the node.
    fn next_node_key(&mut self, node: &mut OpenNode) -> Result<Option<NodeKey>> {
        while let Token::Key(key) = self.tokens.next()? {
            let Some(index) = NodeKey::ALL.iter().position(|(name, _)| *name == key) else {
                self.skip()?;
                continue;
            };
            let (name, key) = NodeKey::ALL[index];
            if node.seen_keys & (1 << index) != 0 {
                return Err(self.duplicate_key_fault(name));
            }
            node.seen_keys |= 1 << index;
            return Ok(Some(key));
        }
        self.check_name(node)?;
        Ok(None)
    }

    pub(super) fn check_name(&self, node: &OpenNode) -> Result<()> {
        if node.is_named { Ok(()) } else { Err(self.tokens.fault(SyntaxCause::Nameless)) }
    }

    /// Starts the next child. Returns `false` at the end of the list.
    pub(super) fn start_next_child(&mut self) -> Result<bool> {
        self.tokens.expect("a node", |token| match token {
            Token::MapStart => Some(true),
            Token::ListEnd => Some(false),
            _ => None,
        })
    }

    fn read_frame(&mut self, node: &mut OpenNode) -> Result<()> {
        self.read_fields("the frame", node, &[("name", Self::read_frame_name)])
    }

    pub(super) fn read_frame_name(&mut self, node: &mut OpenNode) -> Result<()> {
        let name = self.tokens.expect("a text", |token| match token {
            Token::Text(name) => Some(self.names.intern(name)),
            _ => None,
        })?;
        self.nodes[node.id.index()].name = name;
        node.is_named = true;
        Ok(())
    }

    pub(super) fn read_metrics(&mut self, id: NodeId) -> Result<()> {
        self.start_map("the map of metrics")?;
        let mut position = 0;
        while let Token::Key(key) = self.tokens.next()? {
            let column = self.columns.index(key);
            if let Some(key) = self.columns.key_if_present(column, id) {
                return Err(self.duplicate_key_fault(key));
            }
            let value = self.read_metric_value()?;
            self.columns.push(column, id, position, value);
            position += 1;
        }
        Ok(())
    }

    fn read_metric_value(&mut self) -> Result<MetricValue> {
        let value = self.tokens.expect("a number, a text or a list of numbers", |token| {
            Some(match token {
                Token::Text(value) => Some(MetricValue::Text(self.names.intern(value))),
                Token::ListStart => None,
                number => Some(number_value(number)?),
            })
        })?;
        value.map_or_else(|| self.read_metric_list(), Ok)
    }

    /// Reads a list of numbers, after its start. One float makes all of them floats.
    fn read_metric_list(&mut self) -> Result<MetricValue> {
        let mut ints = Vec::new();
        let mut floats = Vec::new();
        let number_or_end = |token: Token<'_>| match token {
            Token::ListEnd => Some(None),
            number => number_value(number).map(Some),
        };
        while let Some(number) = self.tokens.expect("a number", number_or_end)? {
            match number {
                MetricValue::Int(value) if floats.is_empty() => ints.push(value),
                MetricValue::Int(value) => floats.push(value as f64),
                MetricValue::Float(value) => {
                    floats.extend(ints.drain(..).map(|int| int as f64));
                    floats.push(value);
                }
                _ => {}
            }
        }
        Ok(if floats.is_empty() { MetricValue::Ints(ints) } else { MetricValue::Floats(floats) })
    }
}

/// Returns the value of a number token. An integer beyond `i64` becomes the nearest float.
fn number_value(token: Token<'_>) -> Option<MetricValue> {
    match token {
        Token::Int(value) => Some(MetricValue::Int(value)),
        Token::BigInt(value) => Some(MetricValue::Float(value as f64)),
        Token::Float(value) => Some(MetricValue::Float(value)),
        // JSON has no NaN, so writers use null.
        Token::Null => Some(MetricValue::Float(f64::NAN)),
        _ => None,
    }
}
