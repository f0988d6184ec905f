#include "examples/html/html_text.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <gumbo.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr std::ptrdiff_t kMostTags = 10'000;  // gumbo frees a tree by recursion

// How a browser lays elements out, as the HTML standard (15.3, "Non-replaced elements") says it. Others are inline.
// A line of their own; of a table's row its cells are in it.
constexpr std::array kBlocks = {
    GUMBO_TAG_ADDRESS,  GUMBO_TAG_ARTICLE, GUMBO_TAG_ASIDE,      GUMBO_TAG_BLOCKQUOTE, GUMBO_TAG_BODY,
    GUMBO_TAG_BR,       GUMBO_TAG_CAPTION, GUMBO_TAG_CENTER,     GUMBO_TAG_DD,         GUMBO_TAG_DETAILS,
    GUMBO_TAG_DIR,      GUMBO_TAG_DIV,     GUMBO_TAG_DL,         GUMBO_TAG_DT,         GUMBO_TAG_FIELDSET,
    GUMBO_TAG_FIGURE,   GUMBO_TAG_FORM,    GUMBO_TAG_FIGCAPTION, GUMBO_TAG_FOOTER,     GUMBO_TAG_H1,
    GUMBO_TAG_H2,       GUMBO_TAG_H3,      GUMBO_TAG_H4,         GUMBO_TAG_H5,         GUMBO_TAG_H6,
    GUMBO_TAG_HEADER,   GUMBO_TAG_HGROUP,  GUMBO_TAG_HR,         GUMBO_TAG_LEGEND,     GUMBO_TAG_LI,
    GUMBO_TAG_LISTING,  GUMBO_TAG_MAIN,    GUMBO_TAG_MENU,       GUMBO_TAG_NAV,        GUMBO_TAG_OL,
    GUMBO_TAG_OPTGROUP, GUMBO_TAG_OPTION,  GUMBO_TAG_P,          GUMBO_TAG_PLAINTEXT,  GUMBO_TAG_PRE,
    GUMBO_TAG_SECTION,  GUMBO_TAG_SUMMARY, GUMBO_TAG_TABLE,      GUMBO_TAG_TR,         GUMBO_TAG_UL,
    GUMBO_TAG_XMP};
// In the line, but apart from what is beside them.
constexpr std::array kApart = {GUMBO_TAG_BUTTON, GUMBO_TAG_IMG, GUMBO_TAG_INPUT,    GUMBO_TAG_MARQUEE, GUMBO_TAG_RT,
                               GUMBO_TAG_SELECT, GUMBO_TAG_TD,  GUMBO_TAG_TEXTAREA, GUMBO_TAG_TH};
// Not shown at all; what is in some of them is for a browser that cannot show something else.
constexpr std::array kHidden = {
    GUMBO_TAG_APPLET, GUMBO_TAG_AUDIO,   GUMBO_TAG_CANVAS,   GUMBO_TAG_DATALIST, GUMBO_TAG_HEAD,   GUMBO_TAG_IFRAME,
    GUMBO_TAG_METER,  GUMBO_TAG_NOEMBED, GUMBO_TAG_NOFRAMES, GUMBO_TAG_NOSCRIPT, GUMBO_TAG_OBJECT, GUMBO_TAG_PROGRESS,
    GUMBO_TAG_RP,     GUMBO_TAG_SCRIPT,  GUMBO_TAG_STYLE,    GUMBO_TAG_TEMPLATE, GUMBO_TAG_TITLE,  GUMBO_TAG_VIDEO};
constexpr std::array kPreformatted = {GUMBO_TAG_LISTING, GUMBO_TAG_PLAINTEXT, GUMBO_TAG_PRE, GUMBO_TAG_TEXTAREA,
                                      GUMBO_TAG_XMP};

bool is_one_of(std::span<const GumboTag> tags, const GumboNode& node) {
  if (node.type != GUMBO_NODE_ELEMENT && node.type != GUMBO_NODE_TEMPLATE) return false;
  return std::ranges::find(tags, node.v.element.tag) != tags.end();
}

class Text {
 public:
  void add(std::string_view text, bool as_it_stands) {
    if (as_it_stands) {
      text_ += text;
      return;
    }
    for (const char c : text) {
      const bool is_space = c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
      if (!is_space) {
        text_ += c;
      } else {
        end_word();
      }
    }
  }
  void end_word() {
    if (!text_.empty() && text_.back() != ' ' && text_.back() != '\n') text_ += ' ';
  }
  void end_line() {
    if (!text_.empty() && text_.back() == ' ') text_.pop_back();
    if (!text_.empty() && text_.back() != '\n') text_ += '\n';
  }
  // Where an element begins or ends.
  void end(const GumboNode& node) {
    if (is_one_of(kBlocks, node)) end_line();
    if (is_one_of(kApart, node)) end_word();
  }
  std::string finish() {
    text_.resize(text_.find_last_not_of(" \n") + 1);
    return std::move(text_);
  }

 private:
  std::string text_;
};

}  // namespace

std::string html_to_text(std::string_view html) {
  if (std::ranges::count(html, '<') > kMostTags) {
    throw ErrorException(ErrorCode::kParse, fmt::format("the HTML has more than {} tags", kMostTags));
  }
  const std::unique_ptr<GumboOutput, void (*)(GumboOutput*)> page(
      gumbo_parse_with_options(&kGumboDefaultOptions, html.data(), html.size()),
      [](GumboOutput* output) { gumbo_destroy_output(&kGumboDefaultOptions, output); });
  Text text;
  int in_pre = 0;
  // Depth first, by the nodes' own links: a page may be deep.
  const GumboNode* node = page->root;
  bool is_end = false;  // of the node, after its children
  while (node != nullptr) {
    if (!is_end) {
      text.end(*node);
      if (is_one_of(kPreformatted, *node)) ++in_pre;
      if (node->type == GUMBO_NODE_TEXT || node->type == GUMBO_NODE_CDATA || node->type == GUMBO_NODE_WHITESPACE) {
        text.add(node->v.text.text, in_pre > 0);
      }
      if (node->type == GUMBO_NODE_ELEMENT && !is_one_of(kHidden, *node) && node->v.element.children.length > 0) {
        node = static_cast<const GumboNode*>(node->v.element.children.data[0]);
        continue;
      }
    }
    text.end(*node);
    if (is_one_of(kPreformatted, *node)) --in_pre;
    const GumboNode* const parent = node == page->root ? nullptr : node->parent;
    is_end = parent == nullptr || node->index_within_parent + 1 >= parent->v.element.children.length;
    node =
        is_end ? parent : static_cast<const GumboNode*>(parent->v.element.children.data[node->index_within_parent + 1]);
  }
  return text.finish();
}

}  // namespace millrace
