#include "millrace/tokenizer/json_node.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/utf8.h"

namespace millrace {

JsonNode::JsonNode(const nlohmann::json& value, std::string file, std::string path, int depth)
    : value_(&value), file_(std::move(file)), path_(std::move(path)), depth_(depth) {
  // Components hold components: without a limit, a file could exhaust the stack.
  if (depth > kMostJsonDepth) fail("nested too deeply");
}

void JsonNode::fail(std::string_view why) const {
  throw ErrorException(ErrorCode::kParse, path_.empty() ? fmt::format("{}: {}", file_, why)
                                                        : fmt::format("{}: {}: {}", file_, path_, why));
}

std::string JsonNode::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

bool JsonNode::is_null() const { return value_->is_null(); }

JsonNode JsonNode::member(std::string_view name) const {
  if (!value_->is_object()) fail(fmt::format("expected an object, found {}", value_->type_name()));
  const auto found = value_->find(name);
  if (found == value_->end()) fail(fmt::format("'{}' is missing", name));
  return child(*found, path_of(name));
}

std::optional<JsonNode> JsonNode::find(std::string_view name) const {
  if (!value_->is_object()) fail(fmt::format("expected an object, found {}", value_->type_name()));
  const auto found = value_->find(name);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return child(*found, path_of(name));
}

size_t JsonNode::num_elements() const {
  if (!value_->is_array()) fail(fmt::format("expected an array, found {}", value_->type_name()));
  return value_->size();
}

JsonNode JsonNode::element(size_t index) const { return child((*value_)[index], fmt::format("{}[{}]", path_, index)); }

std::string JsonNode::string() const {
  if (!value_->is_string()) fail(fmt::format("expected a string, found {}", value_->type_name()));
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail(fmt::format("expected true or false, found {}", value_->type_name()));
  return value_->get<bool>();
}

int32_t JsonNode::id() const { return whole_number("an id"); }

size_t JsonNode::count() const { return static_cast<size_t>(whole_number("a count")); }

int32_t JsonNode::whole_number(std::string_view what) const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
    fail(fmt::format("expected {}, found {}", what, shown_json(*value_)));
  }
  return value_->get<int32_t>();
}

void JsonNode::require_members_among(std::initializer_list<std::string_view> names) const {
  if (!value_->is_object()) fail(fmt::format("expected an object, found {}", value_->type_name()));
  for (const auto& [name, unused] : value_->items()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      child((*value_)[name], path_of(excerpt(name))).fail("unknown option");
    }
  }
}

}  // namespace millrace
