# find_package(marey) defines the target marey::marey: the headers, and the folder of libmarey.so, which
# a program that links with it loads at run time if it is there. Without it nothing is recorded.
#
#   cmake -B build -Dmarey_DIR="$(marey --cmakedir)"

if(NOT TARGET marey::marey)
  get_filename_component(marey_ROOT_DIR "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  find_package(Threads REQUIRED)
  add_library(marey::marey INTERFACE IMPORTED)
  target_include_directories(marey::marey INTERFACE "${marey_ROOT_DIR}/include")
  target_compile_features(marey::marey INTERFACE cxx_std_17)
  target_link_libraries(marey::marey INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(marey::marey INTERFACE "LINKER:-rpath,${marey_ROOT_DIR}/lib")
endif()
