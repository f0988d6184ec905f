#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace millrace {

/// A class, and the word that the model says for it.
struct TextClass {
  std::string name = {};
  std::string word = {};
};

/// What a model is asked, and what it may answer: it goes from the preparation into `statistics.json`, and with the
/// training into the model's folder, `text_to_text.json`.
struct TextTask {
  std::string prefix = "quality: ";     ///< in front of the title
  int64_t max_length = 128;             ///< tokens of an input
  int64_t head = 63;                    ///< of a longer one so many stay in front of `<extra_id_1>`, the others behind
  bool html = false;                    ///< whether bodies are HTML
  std::vector<TextClass> classes = {};  ///< their numbers are their places

  /// The number of a class by its name.
  std::optional<int64_t> number_of(std::string_view name) const;
  /// Throws `kInvalidArgument` for fewer than two classes, names or words that are there twice, and lengths that cannot
  /// work.
  void check() const;
};

[[nodiscard]] nlohmann::ordered_json to_json(const TextTask& task);
/// `path`: named in errors. Throws `kParse` for another document, and as `check`.
[[nodiscard]] TextTask text_task_from(const nlohmann::ordered_json& json, const std::string& path);
/// Reads `text_to_text.json` of a model's folder. Throws `kIo`, and as above.
[[nodiscard]] TextTask load_text_task(const std::string& directory);
/// Writes it.
void save_text_task(const std::string& directory, const TextTask& task);

}  // namespace millrace
