"""The certificate of `jaxina certify`: hashes of one program's sums, over everything that must not change them.

`combinations` says what is combined. `worker` is what each process of a run does, with the `program` and its inputs.
`verdict` compares the hashes, and `tables` shows them.
"""
