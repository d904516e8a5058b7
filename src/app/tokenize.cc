// seekline tokenize: text to ids and back.
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "app/commands.h"
#include "text/tokenizer.h"

namespace seekline {
namespace {

struct TokenizeOptions {
  std::string folder, text, file;
  std::vector<std::int32_t> decode;
  bool special = false, pieces = false, count = false;
};

std::string input_text(const TokenizeOptions& o) {
  if (o.file.empty() && o.text != "-") return o.text;
  std::ifstream file;
  if (!o.file.empty()) {
    file.open(o.file, std::ios::binary);
    if (!file) throw Error(ErrorCode::kNotFound, o.file + " cannot be opened");
  }
  std::istream& in = o.file.empty() ? std::cin : file;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void tokenize(const TokenizeOptions& o) {
  const std::string folder = o.folder.empty() ? default_model_folder() : o.folder;
  const Tokenizer tokenizer = Tokenizer::load(std::filesystem::path(folder) / "tokenizer.json");
  if (!o.decode.empty()) {
    fmt::print("{}\n", tokenizer.decode(o.decode));
    return;
  }
  const std::vector<TokenId> ids = tokenizer.encode(input_text(o), o.special);
  if (o.count) {
    fmt::print("{}\n", ids.size());
  } else if (o.pieces) {
    for (const TokenId id : ids) fmt::print("{:>8}  {}\n", id, tokenizer.token_spelling(id));
  } else {
    fmt::print("{}\n", fmt::join(ids, " "));
  }
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  const auto o = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "text to token ids, or ids to text");
  command->add_option("text", o->text, "the text; - reads it from standard input");
  command->add_option("--model", o->folder,
                      "checkpoint folder with tokenizer.json; default: the default model");
  command->add_option("--file", o->file, "read the text from a file");
  command->add_option("--decode", o->decode, "ids to turn into text instead")->delimiter(',');
  command->add_flag("--special", o->special, "added tokens in the text become their ids");
  command->add_flag("--pieces", o->pieces, "one token a line, with its spelling");
  command->add_flag("--count", o->count, "print how many tokens only");
  command->callback([o] { tokenize(*o); });
}

}  // namespace seekline
