# A file per vector level, each compiled with its own flags; the table is chosen at start (kernels/table.h).
file(GLOB avx2_sources ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*_avx2.cc)
file(GLOB avx512_sources ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*_avx512.cc)
file(GLOB avx512bf16_sources ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*_avx512bf16.cc)
# The intrinsics of g++ 12 read deliberately undefined vectors, which it then reports.
set(vector_options -O3 -Wno-uninitialized -Wno-maybe-uninitialized)
set_source_files_properties(${avx2_sources} PROPERTIES COMPILE_OPTIONS "${vector_options};-mavx2;-mfma;-mf16c")
set_source_files_properties(${avx512_sources} PROPERTIES COMPILE_OPTIONS
  "${vector_options};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c")
set_source_files_properties(${avx512bf16_sources} PROPERTIES COMPILE_OPTIONS
  "${vector_options};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vbmi;-mavx512vnni;-mavx512bf16;-mfma;-mf16c")
