#include "examples/text_to_text/text_encoder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr const char* kEnd = "</s>";

}  // namespace

TextEncoder::TextEncoder(TextTask task, const Tokenizer& tokenizer, const std::string& path)
    : task_(std::move(task)), tokenizer_(tokenizer.with_truncation(std::nullopt).with_padding(std::nullopt)) {
  task_.check();
  const auto refuse = [](const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); };
  for (const auto& [token, id] :
       {std::pair("<pad>", &pad_), std::pair(kEnd, &end_), std::pair("<extra_id_1>", &left_out_)}) {
    const auto found = tokenizer_.id_of(token);
    if (!found) refuse(fmt::format("{} has no token {}: it is not that of a T5", path, token));
    *id = *found;
  }
  for (const TextClass& one : task_.classes) {
    std::vector<int32_t> ids;
    tokenizer_.encode_ids(one.word, /*add_special_tokens=*/false, ids);
    const auto unknown = tokenizer_.id_of("<unk>");
    if (ids.size() != 1 || ids[0] == unknown) {
      refuse(fmt::format("'{}', the word of class '{}', is {} in {}; a word must be one token", one.word, one.name,
                         ids.size() == 1 ? "unknown" : fmt::format("{} tokens", ids.size()), path));
    }
    if (std::ranges::find(class_tokens_, ids[0]) != class_tokens_.end()) {
      refuse(fmt::format("'{}', the word of class '{}', is the token of another class, too", one.word, one.name));
    }
    class_tokens_.push_back(ids[0]);
    labels_.insert(labels_.end(), {ids[0], end_});
  }
}

int64_t TextEncoder::encode(std::string_view title, std::string_view body, std::vector<int32_t>& ids) const {
  ids.clear();
  tokenizer_.encode_ids(fmt::format("{}{}{}{}{}", task_.prefix, title, kEnd, body, kEnd), /*add_special_tokens=*/false,
                        ids);
  const auto length = static_cast<int64_t>(ids.size());
  if (length > task_.max_length) {
    const auto head = ids.begin() + task_.head;
    *head = left_out_;
    ids.erase(head + 1, ids.end() - (task_.max_length - task_.head - 1));
  }
  ids.resize(static_cast<size_t>(task_.max_length), pad_);
  return length;
}

std::span<const int32_t> TextEncoder::labels_of(int64_t number) const {
  return std::span(labels_).subspan(2 * static_cast<size_t>(number), 2);
}

}  // namespace millrace
