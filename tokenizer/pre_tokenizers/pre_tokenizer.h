#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/aligned_text.h"
#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// Cuts the words of a text into smaller ones, and may change or drop parts of them. Immutable; any thread.
///
/// To add one: its own pair of files in this folder, named as its `type`, and a line in `read_pre_tokenizer`.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Works on each word of `text` by itself; `spare` is work space with any contents.
  virtual void apply(WordedText& text, WordedText& spare) const = 0;
  /// What `read_pre_tokenizer` reads.
  virtual nlohmann::ordered_json to_json() const = 0;
  /// Whether `apply` needs a text that tracks where its bytes come from.
  virtual bool needs_tracking() const { return false; }
};

/// The pre-tokenizer that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonNode& node);

}  // namespace millrace
