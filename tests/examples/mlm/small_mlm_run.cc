#include "tests/examples/mlm/small_mlm_run.h"

#include "tests/examples/mlm/preparation_text.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

std::vector<std::string> small_mlm_preparation(const std::string& folder, int num_rows,
                                               const std::vector<std::string>& more) {
  std::string text;
  for (const std::string& row : numbered_rows(num_rows)) text += row + "\n";
  write_file(folder + "/text.txt", text);
  write_file(folder + "/tokenizer.json", letter_tokenizer_json());
  return with_options({kPrepareShards, "--tokenizer", folder + "/tokenizer.json", "--out", folder + "/shards", "--text",
                       folder + "/text.txt", "--max-length", "16", "--validation-every", "5"},
                      more);
}

std::vector<std::string> small_mlm_training(const std::string& out, const std::string& set,
                                            const std::vector<std::string>& more) {
  return with_options(
      {kTrainMlm, "--out", out, "--shards", set + "/shards", "--tokenizer", set + "/tokenizer.json", "--layers", "1",
       "--hidden", "16", "--heads", "2", "--max-length", "16", "--global-batch", "8", "--warmup-steps", "2"},
      more);
}

}  // namespace millrace::test
