#include "tests/trainer/golden/directory.h"

#include <filesystem>
#include <set>
#include <stdexcept>

#include "tests/trainer/golden/json_file.h"
#include "tests/trainer/golden/models.h"
#include "tests/trainer/golden/operators.h"
#include "tests/trainer/golden/rules.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// The float32 form of an operator is compared with figures of float64; a row that is nearly constant loses digits when
// it is normalised.
constexpr double kFloatLimit = 2e-5;

void check_model(const fs::path& folder, GoldenReport& report) {
  const std::string name = folder.filename().string();
  report.begin_group(name);
  report.guard(name, [&] {
    const auto type = read_json((folder / "config.json").string()).value("model_type", "");
    if (type == "roberta") return check_golden_roberta(folder.string(), report);
    if (type == "t5") return check_golden_t5(folder.string(), report);
    report.expect(name, false, "unknown model_type '" + type + "'");
  });
}

}  // namespace

void check_golden_directory(const std::string& directory, GoldenReport& report) {
  if (!fs::is_directory(directory)) throw std::runtime_error(directory + " is not a directory");
  // The folder of one model, as it lies in such a directory.
  if (fs::exists(fs::path(directory) / "config.json")) return check_model(fs::canonical(directory), report);
  std::set<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(directory)) paths.insert(entry.path());
  for (const fs::path& path : paths) {
    if (fs::exists(path / "config.json")) {
      check_model(path, report);
    } else if (path.filename() == "optimizers.json") {
      check_golden_optimizers(path.string(), report);
    } else if (path.filename() == "schedules.json") {
      check_golden_schedules(path.string(), report);
    } else if (path.extension() == ".safetensors") {
      check_golden_operators((path.parent_path() / path.stem()).string(), kFloatLimit, report);
    }
  }
  if (report.passed() + report.failures().size() == 0) {
    throw std::runtime_error("there is nothing to check in " + directory);
  }
}

}  // namespace millrace::test
