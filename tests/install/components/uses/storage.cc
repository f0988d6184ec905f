#include <stdexcept>

#include "millrace/formats/storage/local.h"

void use_storage() {
  if (!millrace::glob_local("/no/such/folder/*").empty()) throw std::runtime_error("storage");
}
