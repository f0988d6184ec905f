#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/aligned_text.h"
#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// Changes a text before it is cut into words. Immutable; any thread.
///
/// To add one: its own pair of files in this folder, named as its `type`, and a line in `read_normalizer`.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Changes `text`; `spare` is work space with any contents.
  virtual void apply(AlignedText& text, AlignedText& spare) const = 0;
  /// What `read_normalizer` reads.
  virtual nlohmann::ordered_json to_json() const = 0;

  /// The changed text of one that comes from nowhere.
  std::string apply_to(std::string_view text) const;
};

/// The normalizer that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const Normalizer> read_normalizer(const JsonNode& node);

}  // namespace millrace
