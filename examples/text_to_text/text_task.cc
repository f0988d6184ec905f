#include "examples/text_to_text/text_task.h"

#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFile = "/text_to_text.json";

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

}  // namespace

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
    if (!names.insert(one.name).second) refuse(fmt::format("class '{}' is there twice", one.name));
    if (!words.insert(one.word).second) refuse(fmt::format("two classes have the word '{}'", one.word));
  }
  if (max_length < 4) refuse(fmt::format("max_length is {}, must be at least 4", max_length));
  if (head < 1 || head > max_length - 2) {
    refuse(fmt::format("head is {}, must be 1 to {}: one token of {} is <extra_id_1>, and one follows it at least",
                       head, max_length - 2, max_length));
  }
}

Json to_json(const TextTask& task) {
  Json classes = Json::array();
  for (const TextClass& one : task.classes) classes.push_back({{"name", one.name}, {"word", one.word}});
  return {{"prefix", task.prefix},
          {"max_length", task.max_length},
          {"head", task.head},
          {"html", task.html},
          {"classes", std::move(classes)}};
}

TextTask text_task_from(const Json& json, const std::string& path) {
  TextTask task;
  try {
    json.at("prefix").get_to(task.prefix);
    json.at("max_length").get_to(task.max_length);
    json.at("head").get_to(task.head);
    json.at("html").get_to(task.html);
    for (const Json& one : json.at("classes")) task.classes.push_back({one.at("name"), one.at("word")});
  } catch (const nlohmann::json::exception& e) {
    throw ErrorException({.code = ErrorCode::kParse, .message = e.what(), .shard = path});
  }
  task.check();
  return task;
}

TextTask load_text_task(const std::string& directory) {
  const std::string path = directory + kFile;
  return text_task_from(parse_json<Json>(read_whole_file(path, "what a model is asked"), path), path);
}

void save_text_task(const std::string& directory, const TextTask& task) {
  write_atomically(directory + kFile, to_json(task).dump(2) + "\n");
}

}  // namespace millrace
