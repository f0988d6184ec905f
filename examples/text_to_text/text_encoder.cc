#include "examples/text_to_text/text_encoder.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/read_json.h"
#include "millrace/formats/storage/atomic_file.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTaskFile = "/text_to_text.json";
constexpr const char* kEnd = "</s>";

}  // namespace

void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

std::optional<int64_t> TextTask::number_of(std::string_view name) const {
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].name == name) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

void TextTask::check() const {
  if (classes.size() < 2) refuse(fmt::format("there are {} classes, 2 at least are needed", classes.size()));
  std::set<std::string> names;
  std::set<std::string> words;
  for (const TextClass& one : classes) {
    if (one.name.empty()) refuse("a class has no name");
    if (one.word.empty()) refuse(fmt::format("class '{}' has an empty word", one.name));
    if (!names.insert(one.name).second) refuse(fmt::format("class '{}' is there twice", one.name));
    if (!words.insert(one.word).second) refuse(fmt::format("two classes have the word '{}'", one.word));
  }
  if (max_length < 4) refuse(fmt::format("max_length is {}, must be at least 4", max_length));
  if (head < 1 || head > max_length - 2) {
    refuse(fmt::format("head is {}, must be 1 to {}: one token of {} is <extra_id_1>, and one follows it at least",
                       head, max_length - 2, max_length));
  }
}

std::vector<std::string> TextTask::names() const {
  std::vector<std::string> names;
  for (const TextClass& one : classes) names.push_back(one.name);
  return names;
}

void to_json(Json& json, const TextTask& task) {
  json = {{"prefix", task.prefix}, {"max_length", task.max_length}, {"head", task.head}, {"html", task.html}};
  for (const TextClass& one : task.classes) json["classes"].push_back({{"name", one.name}, {"word", one.word}});
}

void from_json(const nlohmann::json& json, TextTask& task) {
  json.at("prefix").get_to(task.prefix);
  json.at("max_length").get_to(task.max_length);
  json.at("head").get_to(task.head);
  json.at("html").get_to(task.html);
  for (const nlohmann::json& one : json.at("classes")) task.classes.push_back({one.at("name"), one.at("word")});
}

TextTask load_text_task(const std::string& directory) {
  auto task = read_json<TextTask>(directory + kTaskFile, "task of a model");
  task.check();
  return task;
}

void save_text_task(const std::string& directory, const TextTask& task) {
  write_atomically(directory + kTaskFile, Json(task).dump(2) + "\n");
}

TextEncoder::TextEncoder(TextTask task, const Tokenizer& tokenizer, const std::string& path)
    : task_(std::move(task)), tokenizer_(tokenizer.with_truncation(std::nullopt).with_padding(std::nullopt)) {
  task_.check();
  for (const auto& [token, id] :
       {std::pair("<pad>", &pad_), std::pair(kEnd, &end_), std::pair("<extra_id_1>", &left_out_)}) {
    const auto found = tokenizer_.id_of(token);
    if (!found) refuse(fmt::format("{} has no token {}: it is not that of a T5", path, token));
    *id = *found;
  }
  for (const TextClass& one : task_.classes) {
    std::vector<int32_t> ids;
    tokenizer_.encode_ids(one.word, /*add_special_tokens=*/false, ids);
    std::string what;
    if (ids.size() != 1) {
      what = fmt::format("{} tokens", ids.size());
    } else if (tokenizer_.decode(ids).empty()) {  // left out, as special ones are
      what = "a special token";
    } else if (ids[0] == tokenizer_.id_of("<unk>")) {
      what = "unknown";
    }
    if (!what.empty()) {
      refuse(fmt::format("'{}', the word of class '{}', is {} in {}; a word must be one token that is not special",
                         one.word, one.name, what, path));
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

Dataset TextEncoder::encoded(const Dataset& rows) const {
  const Shape shape = {task_.max_length};
  return rows.map({.name = "encode",
                   .writes = {{.name = "input_ids", .dtype = DType::kInt32, .shape = shape},
                              {.name = "attention_mask", .dtype = DType::kInt64, .shape = shape},
                              {.name = "length", .dtype = DType::kInt64, .shape = {}}},
                   .function = [encoder = *this](const RowView& row, RowWriter& out) {
                     std::vector<int32_t> ids;
                     const int64_t length =
                         encoder.encode(row.value<std::string_view>("title"), row.value<std::string_view>("body"), ids);
                     std::vector<int64_t> mask(ids.size(), 0);
                     std::fill_n(mask.begin(), std::min(length, std::ssize(mask)), 1);
                     out.set_values<int32_t>("input_ids", ids);
                     out.set_values<int64_t>("attention_mask", mask);
                     out.set("length", length);
                   }});
}

std::span<const int32_t> TextEncoder::labels_of(int64_t number) const {
  return std::span(labels_).subspan(2 * static_cast<size_t>(number), 2);
}

std::string TextEncoder::text_of(std::span<const int32_t> ids) const {
  return tokenizer_.decode({ids.begin(), std::ranges::find(ids, pad_)}, /*skip_special_tokens=*/false);
}

}  // namespace millrace
