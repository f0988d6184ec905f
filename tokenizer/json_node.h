#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace millrace {

/// A value in a JSON file together with its place there (`pre_tokenizer.pretokenizers[1].type`), so that whatever is
/// wrong with it can be said in one line. Valid as long as the document. All functions throw `kParse`.
class JsonNode {
 public:
  /// The root of the document that was read from `file`.
  JsonNode(const nlohmann::json& value, std::string file) : JsonNode(value, std::move(file), "", 0) {}

  [[noreturn]] void fail(std::string_view why) const;

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const;
  /// A member that must be there.
  JsonNode member(std::string_view name) const;
  /// A member that may be missing or null.
  std::optional<JsonNode> find(std::string_view name) const;
  /// Elements of an array.
  size_t num_elements() const;
  JsonNode element(size_t index) const;

  std::string string() const;
  bool boolean() const;
  int32_t id() const;    ///< a whole number from 0 to 2^31 - 1
  size_t count() const;  ///< a whole number from 0 to 2^31 - 1

  /// An object with these members only: another one would be an option that is silently ignored.
  void require_members_among(std::initializer_list<std::string_view> names) const;

 private:
  JsonNode(const nlohmann::json& value, std::string file, std::string path, int depth);
  JsonNode child(const nlohmann::json& value, std::string path) const {
    return {value, file_, std::move(path), depth_ + 1};
  }
  int32_t whole_number(std::string_view what) const;
  std::string path_of(std::string_view name) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
  int depth_;
};

}  // namespace millrace
