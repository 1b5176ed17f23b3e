# Generates the Python code of a protocol, with the grpcio-tools of the Python that builds.
find_package(Python 3.11 COMPONENTS Interpreter REQUIRED)

# FOLDER of the package, relative to the project's; NAME of the .proto file in it, and of the target.
function(jaxina_protocol folder name)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${folder}/${name}_pb2.py ${CMAKE_CURRENT_BINARY_DIR}/${folder}/${name}_pb2_grpc.py)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${Python_EXECUTABLE} -m grpc_tools.protoc -I ${PROJECT_SOURCE_DIR} --python_out=${CMAKE_CURRENT_BINARY_DIR}
            --grpc_python_out=${CMAKE_CURRENT_BINARY_DIR} ${folder}/${name}.proto
    DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/${name}.proto
    COMMENT "Generating the protocol ${name}"
    VERBATIM)
  add_custom_target(jaxina_${name} ALL DEPENDS ${generated})
  install(FILES ${generated} DESTINATION ${folder})
endfunction()
