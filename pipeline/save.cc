#include "millrace/pipeline/save.h"

#include "millrace/formats/elements/elements_folder.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

SaveReport run_save(Pipeline pipeline, const std::string& directory, const SaveOptions& options) {
  const int64_t begin = now_ns();
  while (std::optional<Batch> taken = pipeline.next()) {
    if (options.on_progress) options.on_progress(taken->values<int64_t>("elements")[0]);
  }
  const std::shared_ptr<const ElementsIndex> index = find_elements(directory);
  return {.elements = index->num_elements(),
          .bytes = index->num_bytes(),
          .seconds = 1e-9 * static_cast<double>(now_ns() - begin),
          .skipped = pipeline.skipped().counts};
}

}  // namespace millrace
