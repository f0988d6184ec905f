#include "millrace/tokenizer/text_pattern.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/oniguruma.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

// A text of ordinary length needs far fewer; expressions that try everything again and again would never end.
constexpr unsigned long kMaxRetries = 10'000'000;
constexpr unsigned int kMaxStackEntries = 1'000'000;

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

std::string message_of(int code, OnigErrorInfo* info) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> message{};
  const int size = Oniguruma::loaded().describe_error(message.data(), code, info);
  return {reinterpret_cast<const char*>(message.data()), static_cast<size_t>(size)};
}

}  // namespace

struct TextPattern::Expression {
  explicit Expression(const JsonNode& node) {
    const std::string source = node.string();
    OnigErrorInfo info;
    const Oniguruma& oniguruma = Oniguruma::loaded();
    const int result = oniguruma.make(&regex, bytes_of(source), bytes_of(source) + source.size(), ONIG_OPTION_NONE,
                                      oniguruma.utf8, oniguruma.ruby_syntax, &info);
    if (result != ONIG_NORMAL) {
      node.fail(fmt::format("'{}' is no regular expression: {}", excerpt(source), message_of(result, &info)));
    }
  }
  ~Expression() { Oniguruma::loaded().free(regex); }
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  regex_t* regex = nullptr;
};

TextPattern::TextPattern(const JsonNode& node) {
  node.require_members_among({"String", "Regex"});
  if (const auto regex = node.find("Regex")) {
    if (const auto string = node.find("String")) string->fail("there is a Regex as well");
    source_ = regex->string();
    expression_ = std::make_unique<const Expression>(*regex);
  } else {
    source_ = node.member("String").string();
  }
}

TextPattern::~TextPattern() = default;
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;

nlohmann::ordered_json TextPattern::to_json() const { return {{expression_ ? "Regex" : "String", source_}}; }

std::optional<TextPattern::Match> TextPattern::search(std::string_view text, size_t from) const {
  if (!expression_) {
    const size_t found = text.find(source_, from);
    if (found == std::string_view::npos) return std::nullopt;
    return Match{found, found + source_.size()};
  }
  const Oniguruma& oniguruma = Oniguruma::loaded();
  // Work space that each thread keeps.
  static thread_local const std::unique_ptr<OnigMatchParam, void (*)(OnigMatchParam*)> limits = [&] {
    OnigMatchParam* param = oniguruma.make_limits();
    oniguruma.initialize_limits(param);
    oniguruma.limit_retries(param, kMaxRetries);
    oniguruma.limit_stack(param, kMaxStackEntries);
    return std::unique_ptr<OnigMatchParam, void (*)(OnigMatchParam*)>(param, oniguruma.free_limits);
  }();
  static thread_local const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      oniguruma.make_region(), [](OnigRegion* old) { Oniguruma::loaded().free_region(old, 1); });
  const OnigUChar* begin = bytes_of(text);
  const OnigUChar* end = begin + text.size();
  const int result =
      oniguruma.search(expression_->regex, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE, limits.get());
  if (result == ONIG_MISMATCH) return std::nullopt;
  if (result < 0) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("the search for '{}' in a text of {} bytes ended: {}", excerpt(source_),
                                     text.size(), message_of(result, nullptr)));
  }
  return Match{static_cast<size_t>(region->beg[0]), static_cast<size_t>(region->end[0])};
}

std::optional<TextPattern::Match> TextPattern::Cursor::next() {
  while (search_from_ <= text_.size()) {
    const std::optional<Match> match = pattern_.search(text_, search_from_);
    if (!match) break;
    if (match->begin == match->end && last_end_ == match->end) {
      search_from_ += search_from_ < text_.size() ? character_size(text_[search_from_]) : 1;
      continue;
    }
    search_from_ = match->end;
    last_end_ = match->end;
    return match;
  }
  search_from_ = text_.size() + 1;
  return std::nullopt;
}

}  // namespace millrace
