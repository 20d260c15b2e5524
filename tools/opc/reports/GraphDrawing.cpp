// Graphs as SVG and DOT.
// SPDX-License-Identifier: Apache-2.0
#include "GraphDrawing.h"

#include "GraphLayout.h"
#include "Markup.h"
#include "NumberText.h"
#include "TextParts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace opc::cli {

namespace {

constexpr int kBoxWidth = 190, kBoxHeight = 38, kGapX = 24, kGapY = 30, kMargin = 16, kTop = 44;
constexpr size_t kColumns = 24; // of a name in a box

/// Light, and dark where the reader's screen is. A page may hold several drawings: each has a class of its own.
constexpr const char *kStyle =
    "<style>\n"
    ".gd{background:#fff;font:12px ui-monospace,monospace}.gd text{fill:#1b1f24}.gd .t{font-size:11px;fill:#57606a}\n"
    ".gd rect{fill:#f6f8fa;stroke:#8c959f}.gd .i{fill:#ddf4e4}.gd .o{fill:#fff3d6}.gd .b{fill:#f3ecfb}.gd .u{fill:#eee}\n"
    ".gd .s0{stroke:#0969da;stroke-width:3}.gd .s1{stroke:#54aeff;stroke-width:3}.gd .s2{stroke:#0a3069;stroke-width:3}\n"
    ".gd .B{stroke:#6e7781;stroke-width:3}.gd .P{stroke:#d4700a;stroke-width:3}\n"
    ".gd path{fill:none;stroke:#8c959f}.gd .c{stroke:#cfd6dd}.gd .x{stroke:#cf222e;stroke-width:3}\n"
    ".gd .xt{fill:#cf222e;font-size:11px}\n"
    ".gd .add{fill:#aceebb;stroke:#1a7f37;stroke-width:3}.gd .del{fill:#ffcecb;stroke:#cf222e;stroke-dasharray:5 3}\n"
    ".gd .mod{fill:#fae17d;stroke:#9a6700;stroke-width:3}.gd .ren{stroke:#0969da;stroke-dasharray:5 3}\n"
    "@media(prefers-color-scheme:dark){.gd{background:#0d1117}.gd text{fill:#e6edf3}.gd .t{fill:#9198a1}\n"
    ".gd rect{fill:#161b22;stroke:#6e7681}.gd .i{fill:#12361f}.gd .o{fill:#3d2f0b}.gd .b{fill:#2a1f3d}.gd .u{fill:#222}\n"
    ".gd .c{stroke:#30363d}.gd .add{fill:#033a16}.gd .del{fill:#67060c}.gd .mod{fill:#4b2900}}\n"
    "</style>\n";

const char *classOf(NodeMark mark) {
  switch (mark) {
  case NodeMark::kAdded: return "add";
  case NodeMark::kRemoved: return "del";
  case NodeMark::kChanged: return "mod";
  case NodeMark::kRenamed: return "ren";
  case NodeMark::kNone: break;
  }
  return "";
}

std::string number(double value) { return roundedText(value, 6); }

/// What a tensor's transition is called in a drawing.
std::string transitionText(const MeshFacts::Transition &t) { return t.kind + " " + bytesText(t.bytes); }

class Drawing {
public:
  Drawing(const GraphFacts &facts, const std::string &title, const NodeMarks &marks)
      : facts_(facts), title_(title), marks_(marks), graph_(facts), layout_(layOut(graph_)) {
    for (const MeshFacts::Op &op : facts.mesh.ops) states_.try_emplace(op.name, stateClass(op.signature));
    for (const MeshFacts::Transition &t : facts.mesh.transitions)
      for (const std::string &tensor : t.tensors) transitions_.try_emplace(tensor, &t);
  }

  std::string svg() {
    const double width = 2 * kMargin + layout_.laneStart[3] * (kBoxWidth + kGapX);
    const double height = kTop + layout_.rows * (kBoxHeight + kGapY) + kMargin;
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"gd\" width=\"" + number(width) +
                      "\" height=\"" + number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
                      "\" role=\"img\">\n<title>" + markupText(title_) + "</title>\n" + kStyle;
    static const char *const kLanes[] = {"forward", "backward", "update"};
    for (int lane = 0; lane < 3; ++lane)
      if (layout_.laneStart[lane + 1] > layout_.laneStart[lane])
        out += "<text class=\"t\" x=\"" + number(kMargin + layout_.laneStart[lane] * (kBoxWidth + kGapX)) +
               "\" y=\"24\">" + kLanes[lane] + "</text>\n";
    std::string labels;
    for (size_t n = 0; n < graph_.size(); ++n) addEdges(n, &out, &labels);
    for (size_t n = 0; n < graph_.size(); ++n) addNode(n, &out);
    return out + labels + "</svg>\n";
  }

  std::string dot() {
    std::string out = "digraph " + dotString({title_}) + " {\n  node [shape=box, fontname=\"monospace\"];\n";
    std::vector<std::string> ids; // the names, which some viewers show in place of labels
    std::set<std::string> known;
    for (size_t n = 0; n < graph_.size(); ++n) {
      const std::string &name = graph_.nodes[n].name;
      ids.push_back(dotString({known.insert(name).second ? name : concat(name, " #", n)}));
    }
    for (size_t n = 0; n < graph_.size(); ++n) {
      const FactNode &node = graph_.nodes[n];
      out += concat("  ", ids[n], " [label=", dotString({node.name, typeLine(node)}));
      if (node.kind != NodeKind::kOp) out += node.kind == NodeKind::kVariable ? ", shape=ellipse" : ", style=rounded";
      out += "];\n";
    }
    for (size_t n = 0; n < graph_.size(); ++n)
      for (const FactNode::Operand &o : graph_.nodes[n].operands) {
        if (o.producer < 0) continue;
        out += concat("  ", ids[static_cast<size_t>(o.producer)], " -> ", ids[n]);
        if (const auto t = transitions_.find(o.tensor); t != transitions_.end())
          out += " [color=red, label=" + dotString({transitionText(*t->second)}) + "]";
        out += ";\n";
      }
    return out + "}\n";
  }

private:
  double left(size_t n) const { return kMargin + layout_.places[n].x * (kBoxWidth + kGapX); }
  double top(size_t n) const { return kTop + layout_.places[n].row * (kBoxHeight + kGapY); }

  std::string typeLine(const FactNode &node) const {
    if (node.kind != NodeKind::kOp) return node.type + " " + node.types;
    const auto &outputs = facts_.ops[node.index].outputs;
    return node.type + (outputs.empty() ? "" : " " + tensorTypeText(outputs[0]));
  }

  /// Within a row there are boxes: what is written there stands above them.
  static double betweenRows(double y) {
    const double pitch = kBoxHeight + kGapY, row = kTop + std::floor((y - kTop) / pitch) * pitch;
    return y - row < kBoxHeight + 4 ? row - 6 : y;
  }

  void addEdges(size_t n, std::string *out, std::string *labels) {
    const auto &to = layout_.places[n];
    for (const FactNode::Operand &o : graph_.nodes[n].operands) {
      if (o.producer < 0 || layout_.places[static_cast<size_t>(o.producer)].row < 0) continue;
      const auto p = static_cast<size_t>(o.producer);
      const auto &from = layout_.places[p];
      const auto moved = transitions_.find(o.tensor);
      const bool crosses = from.lane != to.lane;
      double x1 = left(p) + kBoxWidth / 2.0, y1 = top(p) + kBoxHeight, x2 = left(n) + kBoxWidth / 2.0, y2 = top(n);
      std::string bend;
      if (crosses) {
        const bool rightwards = from.lane < to.lane;
        x1 = left(p) + (rightwards ? kBoxWidth : 0);
        x2 = left(n) + (rightwards ? 0 : kBoxWidth);
        y1 = top(p) + kBoxHeight / 2.0;
        y2 = top(n) + kBoxHeight / 2.0;
        const double middle = (x1 + x2) / 2;
        bend = number(middle) + " " + number(y1) + " " + number(middle) + " " + number(y2);
      } else {
        if (from.row > to.row) {
          y1 = top(p);
          y2 = top(n) + kBoxHeight;
        }
        const double middle = (y1 + y2) / 2;
        bend = number(x1) + " " + number(middle) + " " + number(x2) + " " + number(middle);
      }
      *out += "<path";
      if (moved != transitions_.end())
        *out += " class=\"x\"";
      else if (crosses)
        *out += " class=\"c\"";
      *out += " d=\"M" + number(x1) + " " + number(y1) + "C" + bend + " " + number(x2) + " " + number(y2) + "\"/>\n";
      if (moved == transitions_.end() || !labelled_.insert(o.tensor).second) continue;
      const double y = betweenRows((y1 + y2) / 2);
      *labels += "<text class=\"xt\" x=\"" + number((x1 + x2) / 2 + 4) + "\" y=\"" + number(y) + "\">" +
                 markupText(transitionText(*moved->second)) + "</text>\n";
    }
  }

  void addNode(size_t n, std::string *out) {
    const FactNode &node = graph_.nodes[n];
    const auto &place = layout_.places[n];
    if (place.row < 0) return;
    std::string classes = node.kind == NodeKind::kInput    ? "i"
                          : node.kind == NodeKind::kOutput ? "o"
                          : place.lane == 1                ? "b"
                          : place.lane == 2                ? "u"
                                                           : "";
    if (const auto state = states_.find(node.name); state != states_.end() && node.kind == NodeKind::kOp)
      classes += (classes.empty() ? "" : " ") + state->second;
    if (const NodeMark mark = n < marks_.size() ? marks_[n] : NodeMark::kNone; mark != NodeMark::kNone)
      classes = classOf(mark);
    *out += "<g><title>" + markupText(hover(node)) + "</title><rect";
    if (!classes.empty()) *out += " class=\"" + classes + "\"";
    *out += " x=\"" + number(left(n)) + "\" y=\"" + number(top(n)) + "\" width=\"" + std::to_string(kBoxWidth) +
            "\" height=\"" + std::to_string(kBoxHeight) + "\" rx=\"" + (node.kind == NodeKind::kOp ? "3" : "18") +
            "\"/>";
    const auto line = [&](const char *name, int y, const std::string &text) {
      *out += std::string("<text") + name + " x=\"" + number(left(n) + 8) + "\" y=\"" + number(top(n) + y) + "\">" +
              markupText(clipped(text, kColumns)) + "</text>";
    };
    line("", 16, node.name);
    line(" class=\"t\"", 31, typeLine(node));
    *out += "</g>\n";
  }

  std::string hover(const FactNode &node) const {
    std::string text = node.name + ": " + typeLine(node);
    for (const FactNode::Operand &o : node.operands)
      if (o.producer >= 0 && graph_.nodes[static_cast<size_t>(o.producer)].kind == NodeKind::kVariable) {
        const FactNode &variable = graph_.nodes[static_cast<size_t>(o.producer)];
        text += ", " + variable.name + " " + variable.types;
      }
    if (node.range.known()) text += concat(" (", node.range.file, ":", node.range.line, ")");
    return text;
  }

  const GraphFacts &facts_;
  const std::string &title_;
  const NodeMarks &marks_;
  const FactNodes graph_;
  const GraphLayout layout_;
  std::set<std::string> labelled_;                                   // tensors whose transition has been named
  std::map<std::string, std::string> states_;                        // by op
  std::map<std::string, const MeshFacts::Transition *> transitions_; // by tensor
};

} // namespace

std::string stateClass(const std::string &signature) {
  const size_t arrow = signature.find("->");
  if (arrow == std::string::npos) return "";
  std::string found;
  int depth = 0;
  for (size_t i = arrow + 2; i < signature.size(); ++i) {
    const char c = signature[i];
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c == ',' && depth == 1) break; // the next output
    if (c == 'P') return "P";
    if (c == 'S' && (found.empty() || found == "B") && i + 2 < signature.size())
      found = std::string("s") + (signature[i + 2] == '0' ? '0' : signature[i + 2] == '1' ? '1' : '2');
    if (c == 'B' && found.empty()) found = "B";
  }
  return found;
}

std::string graphSvg(const GraphFacts &facts, const std::string &title, const NodeMarks &marks) {
  return Drawing(facts, title, marks).svg();
}
std::string graphDot(const GraphFacts &facts, const std::string &title) { return Drawing(facts, title, {}).dot(); }

} // namespace opc::cli
