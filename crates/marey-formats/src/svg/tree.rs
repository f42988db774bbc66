//! Builds the tree of the frames of a flame graph, with their inclusive weights.

use std::collections::HashMap;

use marey_model::context::NodeKind;
use marey_store::Reader;

use crate::shared::export::LeftOut;
use crate::shared::weights::{Stack, Weights};

/// The frames, parents before children. The first is the root.
pub(super) struct FlameTree {
    pub(super) nodes: Vec<FlameNode>,
}

/// A frame.
pub(super) struct FlameNode {
    pub(super) name_id: u32,
    pub(super) palette: Palette,
    /// Inclusive weight.
    pub(super) inclusive_weight: f64,
    /// Indices of the direct children.
    pub(super) children: Vec<usize>,
}

/// The colours of a frame, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Palette {
    /// The root frame.
    Root,
    /// Scopes, states, steps.
    Scope,
    /// Frames of a programming language.
    Frame,
    /// Operators, modules and runtime calls.
    Operator,
    /// Work on a device.
    Kernel,
}

impl FlameTree {
    /// Builds the tree. Values below zero or NaN have no width and are left out.
    pub(super) fn build(weights: &Weights, reader: &Reader, left_out: &mut LeftOut) -> Self {
        let root = FlameNode {
            name_id: 0,
            palette: Palette::Root,
            inclusive_weight: 0.0,
            children: Vec::new(),
        };
        let mut tree = Self { nodes: vec![root] };
        let mut parents = vec![0];
        let mut node_by_context = HashMap::new();
        for (&stack, sum) in &weights.by_stack {
            let weight = sum.as_f64();
            if !(0.0..f64::INFINITY).contains(&weight) {
                *left_out.entry("values below zero or without a number").or_default() += 1;
                continue;
            }
            let node = tree.node_of_stack(stack, reader, &mut node_by_context, &mut parents);
            tree.nodes[node].inclusive_weight += weight;
        }
        for node in (1..tree.nodes.len()).rev() {
            let inclusive_weight = tree.nodes[node].inclusive_weight;
            tree.nodes[parents[node]].inclusive_weight += inclusive_weight;
        }
        tree.sort_siblings(reader);
        tree
    }

    /// Returns the frame of a stack.
    fn node_of_stack(
        &mut self,
        stack: Stack,
        reader: &Reader,
        node_by_context: &mut HashMap<u32, usize>,
        parents: &mut Vec<usize>,
    ) -> usize {
        let mut missing_contexts = Vec::new();
        let mut context_id = stack.context_id;
        let mut node = loop {
            if let Some(&node) = node_by_context.get(&context_id) {
                break node;
            }
            // The id of a parent is less than that of its child, so the loop ends.
            let Some(parent) =
                reader.context(context_id).parent.filter(|&parent| parent < context_id)
            else {
                break 0;
            };
            missing_contexts.push(context_id);
            context_id = parent;
        };
        for id in missing_contexts.into_iter().rev() {
            let context = reader.context(id);
            node = self.add_node(node, context.name_id, Palette::for_kind(context.kind), parents);
            node_by_context.insert(id, node);
        }
        match stack.kernel_id {
            Some(name_id) => self.add_node(node, name_id, Palette::Kernel, parents),
            None => node,
        }
    }

    fn add_node(
        &mut self,
        parent: usize,
        name_id: u32,
        palette: Palette,
        parents: &mut Vec<usize>,
    ) -> usize {
        let node = self.nodes.len();
        self.nodes.push(FlameNode {
            name_id,
            palette,
            inclusive_weight: 0.0,
            children: Vec::new(),
        });
        self.nodes[parent].children.push(node);
        parents.push(parent);
        node
    }

    /// Sorts siblings by name, so that two graphs can be compared.
    fn sort_siblings(&mut self, reader: &Reader) {
        for node in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[node].children);
            children.sort_by_key(|&child| reader.text(self.nodes[child].name_id));
            self.nodes[node].children = children;
        }
    }
}

impl Palette {
    const fn for_kind(kind: NodeKind) -> Self {
        match kind {
            NodeKind::Root => Self::Root,
            NodeKind::Scope | NodeKind::State | NodeKind::Step | NodeKind::Mark => Self::Scope,
            NodeKind::Frame => Self::Frame,
            NodeKind::Module | NodeKind::Operator | NodeKind::Runtime => Self::Operator,
            NodeKind::Kernel => Self::Kernel,
        }
    }

    /// Returns a light colour for black text. A name has the same colour in all graphs.
    pub(super) fn colour(self, name: &str) -> String {
        let ([red, green, blue], [reds, greens, blues]) = match self {
            Self::Root => ([200, 200, 200], [1, 1, 1]),
            Self::Scope => ([120, 165, 215], [45, 45, 40]),
            Self::Frame => ([120, 185, 105], [70, 50, 45]),
            Self::Operator => ([225, 150, 60], [30, 65, 50]),
            Self::Kernel => ([220, 100, 110], [35, 50, 45]),
        };
        let hash = fnv1a_32(name);
        let (red, green) = (red + hash % reds, green + hash / 0x100 % greens);
        let blue = blue + hash / 0x1_0000 % blues;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Returns the 32-bit FNV-1a hash, which never changes, unlike the standard library's hash.
fn fnv1a_32(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
