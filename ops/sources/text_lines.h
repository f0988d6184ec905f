#pragma once

#include <string_view>

#include "millrace/ops/format_arguments.h"
#include "millrace/ops/sources/file_source.h"

namespace millrace {

/// Source: the lines of text files; see FileSourceOperator for how files are read, LineSplitter for what a line is.
///
///     "a\nb\r\n\nc"   ->   record: a b "" c
class TextLinesOperator final : public FileSourceOperator {
 public:
  explicit TextLinesOperator(Shards shards, const FileReadOptions& options = {});
  std::string_view name() const override { return "text_lines"; }
  OperatorTraits traits() const override { return traits_of_built_in(); }

 protected:
  std::unique_ptr<RecordSplitter> splitter(uint64_t max_record_bytes) const override;
};

/// What `Dataset::text_lines` is called with.
struct TextLinesArguments {
  std::optional<Shards> shards = {};
  FileReadOptions read = {};

  static constexpr auto fields() {
    using A = TextLinesArguments;
    return describe<A>("text_lines", field::required<&A::shards>, field::stream<&A::read>);
  }
};

}  // namespace millrace
